# shellcheck shell=bash disable=SC2034
# Functions for the scripts of this folder. Bash sources this file; nobody runs it.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# One compiler needs up to 1 GB of memory: lower UROCE_JOBS on a small machine.
jobs=${UROCE_JOBS:-$(nproc)}

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# packages_for build|test|package: the packages that config/packages.txt lists for it.
packages_for() {
  case $1 in
    build) sed -n 's/^\([^# ]\+\) *# build:.*/\1/p' config/packages.txt ;;
    test) sed -n 's/^\([^# ]\+\) *# \(build\|package\|test\):.*/\1/p' config/packages.txt ;;
    package) sed -n 's/^\([^# ]\+\) *# \(build\|package\):.*/\1/p' config/packages.txt ;;
    *) die "packages_for: '$1' is neither build nor test nor package" ;;
  esac
}

missing_packages() {
  local name
  for name in $(packages_for "$1"); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || printf '%s\n' "$name"
  done
}

# install_packages build|test|package: installs the missing packages, and no others.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this machine has no dpkg: install the libraries named in config/packages.txt by hand, then run meson yourself."
  local missing
  missing=$(missing_packages "$1" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    die "these Debian packages are missing: ${missing}— install them as root with: apt-get install $missing"
  fi
  command -v apt-get >/dev/null || die "apt-get is missing; these Debian packages are needed: $missing"
  say "installing $missing"
  export DEBIAN_FRONTEND=noninteractive
  # Stale lists name files that the mirror no longer has. After a failure, update the lists and try once more.
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null; } ||
    die "apt-get could not install: $missing— see its message above."
}

# configure DIR [meson options]: creates the build folder, or sets these options in it.
configure() {
  local dir=$1
  shift
  local log=$dir/setup.log
  if [ -f "$dir/build.ninja" ]; then
    if [ $# -gt 0 ]; then meson configure "$dir" "$@" || die "meson refused these options for $dir: $*"; fi
    return 0
  fi
  mkdir -p "$dir"
  meson setup "$dir" "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "meson could not set up $dir; the log is $log."; }
}

# compile DIR [targets]: runs ninja; prints its output only when it fails.
compile() {
  local dir=$1
  shift
  say "building in $dir ($jobs jobs)"
  local begin=$SECONDS
  ninja -C "$dir" -j "$jobs" "$@" >"$dir/build.log" 2>&1 || {
    grep -A 40 -m 1 -E 'FAILED|error' "$dir/build.log" >&2 || tail -n 40 "$dir/build.log" >&2
    die "the build in $dir failed; the whole log is $dir/build.log."
  }
  say "built in $((SECONDS - begin)) s"
}
