#!/bin/bash
# Usage: config/demo.sh, as root, from a clone.
# Builds uroce. Then two endpoints on DPDK ports move data, every byte verified, and a table shows bandwidth, message rate
# and latency. Last, Debian's own verbs programs run on the daemon.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

install_packages build
configure build
# All that README.md uses, not only what runs here.
compile build apps/uroce_perf apps/uroced/uroced apps/uroce/uroce apps/uroce-run/uroce-run \
  lib/dropin/ibverbs/libibverbs.so.1 lib/dropin/rdmacm/librdmacm.so.1 lib/dropin/sysfs/liburoce-sysfs.so
config/hugepages.sh || [ $? -eq 2 ]
exec python3 config/demo.py build/apps
