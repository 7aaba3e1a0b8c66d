#!/bin/bash
# Usage: config/hugepages.sh [PAGES], by default 512 (1 GiB). Lets hugeadm reserve 2 MiB hugepages and never lowers their number.
# Prints one line with the result. Exit code 0: there are pages. 2: there are none; run programs with EAL's --no-huge.
set -euo pipefail

want=${1:-512}
[[ $want =~ ^[0-9]+$ ]] || { echo "error: '$want' is not a number of hugepages; for example: config/hugepages.sh 512" >&2; exit 1; }

without() {
  echo "hugepages: none ($1); programs run on 4 KiB pages (--no-huge)"
  exit 2
}
# The pool's pages now; nothing where the kernel has no such pool.
pool() { hugeadm --pool-list 2>/dev/null | awk '$1 == 2 * 1024 * 1024 {print $3}'; }

command -v hugeadm >/dev/null || without "hugeadm is missing: apt-get install libhugetlbfs-bin"
have=$(pool)
[ -n "$have" ] || without "this kernel has no 2 MiB pages"
if [ "$have" -lt "$want" ]; then
  # Take at most a quarter of the free memory, so that a small machine keeps working.
  limit=$(awk '/^MemAvailable:/ {print int($2 / 2048 / 4)}' /proc/meminfo)
  [ $((want - have)) -le "$limit" ] || want=$((have + limit))
  hugeadm --pool-pages-min 2MB:"$want" >/dev/null 2>&1 || true
  have=$(pool)
fi
[ "$have" -gt 0 ] || without "the kernel gives none: $([ "$(id -u)" -eq 0 ] && echo 'memory is short or fragmented, or this is a container' || echo 'you are not root')"

# Programs without --in-memory need a mount of hugetlbfs.
hugeadm --list-all-mounts 2>/dev/null | grep -q / || hugeadm --create-mounts >/dev/null 2>&1 || true
# hugeadm does not tell how many are free.
echo "hugepages: $have of 2 MiB reserved, $(</sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages) free"
