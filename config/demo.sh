#!/bin/bash
# Builds uroce and shows its main jobs: two endpoints on DPDK ports move real data, every byte verified, then a table of
# bandwidth, message rate and latency; then Debian's own verbs programs run on the daemon. Run as root from a clone:
# config/demo.sh
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

install_packages build
configure build
compile build apps/uroce_perf apps/uroced/uroced apps/uroce-run/uroce-run lib/dropin/ibverbs/libibverbs.so.1 \
  lib/dropin/sysfs/liburoce-sysfs.so
config/hugepages.sh || [ $? -eq 2 ]
exec python3 config/demo.py build/apps
