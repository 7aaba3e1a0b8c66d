#!/bin/bash
# Reserves 2 MiB hugepages: config/hugepages.sh [PAGES], default 512 (1 GiB). Never lowers what is reserved.
# Says in one line what there is. Exit code 0 with pages, 2 without: programs then run with EAL's --no-huge.
set -euo pipefail

want=${1:-512}
[[ $want =~ ^[0-9]+$ ]] || { echo "error: '$want' is no number of hugepages." >&2; exit 1; }
pages=/sys/kernel/mm/hugepages/hugepages-2048kB

without() {
  echo "hugepages: none ($1); programs run on 4 KiB pages (--no-huge)"
  exit 2
}

[ -d $pages ] || without "this kernel has no 2 MiB pages"
have=$(<$pages/nr_hugepages)
if [ "$have" -lt "$want" ]; then
  # Never more than a quarter of the free memory: a small machine must not be starved by its demo.
  limit=$(awk '/^MemAvailable:/ {print int($2 / 2048 / 4)}' /proc/meminfo)
  [ $((want - have)) -le "$limit" ] || want=$((have + limit))
  { echo "$want" >$pages/nr_hugepages; } 2>/dev/null || true
  have=$(<$pages/nr_hugepages)
fi
[ "$have" -gt 0 ] || without "the machine gives none: $([ "$(id -u)" -eq 0 ] && echo 'memory is short or fragmented, or this is a container' || echo 'not root')"

# Programs started with --in-memory need no mount; others look for one.
if ! grep -q ' hugetlbfs ' /proc/mounts; then
  { mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages; } 2>/dev/null || true
fi
echo "hugepages: $have of 2 MiB reserved, $(<$pages/free_hugepages) free"
