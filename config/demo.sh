#!/bin/bash
# Usage: config/demo.sh, as root, from a clone.
# Builds uroce. Then two endpoints on DPDK ports move data, every byte verified, and a table shows bandwidth, message rate
# and latency. Last, Debian's own verbs programs run on the daemon.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

install_packages build
configure build
compile build apps/uroce_perf apps/uroced/uroced apps/uroce-run/uroce-run lib/dropin/ibverbs/libibverbs.so.1 \
  lib/dropin/sysfs/liburoce-sysfs.so
config/hugepages.sh || [ $? -eq 2 ]
exec python3 config/demo.py build/apps
