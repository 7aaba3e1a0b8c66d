#!/bin/bash
# Builds uroce and shows its main job: two endpoints on DPDK ports move real data, every byte verified, then a table of
# bandwidth, message rate and latency. Run as root from a clone: config/demo.sh
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

install_packages build
configure build
compile build apps/uroce_perf
config/hugepages.sh || [ $? -eq 2 ]
exec python3 config/demo.py build/apps/uroce_perf
