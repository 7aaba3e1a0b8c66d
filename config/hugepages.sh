#!/bin/bash
# Usage: config/hugepages.sh [PAGES], by default 512 (1 GiB). Reserves 2 MiB hugepages and never lowers their number.
# Prints one line with the result. Exit code 0: there are pages. 2: there are none; run programs with EAL's --no-huge.
set -euo pipefail

want=${1:-512}
[[ $want =~ ^[0-9]+$ ]] || { echo "error: '$want' is not a number of hugepages; for example: config/hugepages.sh 512" >&2; exit 1; }
pages=/sys/kernel/mm/hugepages/hugepages-2048kB

without() {
  echo "hugepages: none ($1); programs run on 4 KiB pages (--no-huge)"
  exit 2
}

[ -d $pages ] || without "this kernel has no 2 MiB pages"
have=$(<$pages/nr_hugepages)
if [ "$have" -lt "$want" ]; then
  # Take at most a quarter of the free memory, so that a small machine keeps working.
  limit=$(awk '/^MemAvailable:/ {print int($2 / 2048 / 4)}' /proc/meminfo)
  [ $((want - have)) -le "$limit" ] || want=$((have + limit))
  { echo "$want" >$pages/nr_hugepages; } 2>/dev/null || true
  have=$(<$pages/nr_hugepages)
fi
[ "$have" -gt 0 ] || without "the kernel gives none: $([ "$(id -u)" -eq 0 ] && echo 'memory is short or fragmented, or this is a container' || echo 'you are not root')"

# Programs without --in-memory need a mount of hugetlbfs.
if ! grep -q ' hugetlbfs ' /proc/mounts; then
  { mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages; } 2>/dev/null || true
fi
echo "hugepages: $have of 2 MiB reserved, $(<$pages/free_hugepages) free"
