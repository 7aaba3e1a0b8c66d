# shellcheck shell=bash disable=SC2034
# Functions for the scripts of this folder. Bash sources this file; nobody runs it.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# One compiler needs up to 1.4 GB of memory: lower UROCE_JOBS on a small machine.
jobs=${UROCE_JOBS:-$(nproc)}

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# progress: shows the lines "@ TEXT" of its input, which say how far something is, with the time so far: as one line that is
# rewritten on a terminal, else one every 10 s. Other lines pass.
progress() {
  local begin=$SECONDS shown=$SECONDS now= part= line status
  while :; do
    status=0
    IFS= read -r -t 1 line || status=$?
    line=$part$line part=
    if [ "$status" -gt 128 ]; then
      part=$line  # a second has passed
    elif [ "$status" -ne 0 ] && [ -z "$line" ]; then
      break
    elif [[ $line == "@ "* ]]; then
      now=${line#@ }
    else
      [ ! -t 1 ] || printf '\r\033[K'
      printf '%s\n' "$line"
    fi
    if [ -z "$now" ]; then
      continue
    elif [ -t 1 ]; then
      printf '\r\033[K== %s, %d s' "$now" $((SECONDS - begin))
    elif [ $((SECONDS - shown)) -ge 10 ]; then
      shown=$SECONDS
      say "$now, $((SECONDS - begin)) s"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

# For progress: what apt-get writes to APT::Status-Fd while it installs $1 packages.
apt_steps() {
  local line unpacked=0 installed=0
  while IFS= read -r line; do
    if [[ $line == dlstatus:* && $line =~ file\ ([0-9]+)\ of\ ([0-9]+) ]]; then
      printf '@ downloading package %s of %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif [[ $line =~ ^pmstatus:.*:(Unpacking|Installed)\  ]]; then
      if [ "${BASH_REMATCH[1]}" = Unpacking ]; then unpacked=$((unpacked + 1)); else installed=$((installed + 1)); fi
      printf '@ unpacked %d and installed %d of %d packages\n' "$unpacked" "$installed" "$1"
    fi
  done
}

# For progress: ninja's lines "[12/80] ...".
ninja_steps() {
  local line
  while IFS= read -r line; do
    [[ ! $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || printf '@ %s of %s steps\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  done
}

# For progress: what `meson test` prints, without a line for each test that passed.
meson_steps() {
  local line failed=0
  while IFS= read -r line; do
    if [[ $line =~ ^\ *([0-9]+)/([0-9]+)\ .*\ (OK|SKIP|FAIL|ERROR|TIMEOUT|INTERRUPT)\  ]]; then
      case ${BASH_REMATCH[3]} in OK | SKIP) ;; *)
        failed=$((failed + 1))
        printf '%s\n' "$line"
        ;;
      esac
      printf '@ %s of %s suites, %d to go, %d failed\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" \
        $((BASH_REMATCH[2] - BASH_REMATCH[1])) "$failed"
    else
      printf '%s\n' "$line"
    fi
  done
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

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }

# available A|B: the first of these names that is installed or that the lists of packages have; none of them: the first.
available() {
  local name names
  IFS='|' read -r -a names <<<"$1"
  for name in "${names[@]}"; do if is_installed "$name"; then echo "$name" && return; fi; done
  for name in "${names[@]}"; do
    if [ "$name" = none ] || [[ $(LC_ALL=C apt-cache policy "$name") == *"Candidate: "[!\(]* ]]; then echo "$name" && return; fi
  done
  echo "${names[0]}"
}

missing_packages() {
  local line name
  for line in $(packages_for "$1"); do
    name=$line
    [[ $line != *'|'* ]] || name=$(available "$line")
    [ "$name" = none ] || is_installed "$name" || printf '%s\n' "$name"
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
  export DEBIAN_FRONTEND=noninteractive
  say "installing $missing"
  # Stale lists name files that the mirror no longer has. After a failure, update the lists and try once more.
  # shellcheck disable=SC2086
  apt_install $missing 2>/dev/null || {
    say "updating the lists of packages"
    apt-get update -qq || die "apt-get could not update the lists of packages; see its message above."
    missing=$(missing_packages "$1" | tr '\n' ' ')
    apt_install $missing || die "apt-get could not install: $missing— see its message above."
  }
}

# apt_install PACKAGE...: with progress.
apt_install() {
  local options=(install -y -qq --no-install-recommends) steps count
  steps=$(apt-get "${options[@]}" --simulate "$@") || return 1
  count=$(grep -c '^Inst ' <<<"$steps") || return 0  # all are installed
  { apt-get "${options[@]}" -o APT::Status-Fd=3 "$@" 3>&1 >/dev/null; } | apt_steps "$count" | progress
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

# compile DIR [targets]: runs ninja, with progress; prints its output only when it fails.
compile() {
  local dir=$1
  shift
  say "building in $dir ($jobs jobs)"
  local begin=$SECONDS
  NINJA_STATUS='[%f/%t] ' ninja -C "$dir" -j "$jobs" "$@" 2>&1 | tee "$dir/build.log" | ninja_steps | progress || {
    grep -A 40 -m 1 -E 'FAILED|error' "$dir/build.log" >&2 || tail -n 40 "$dir/build.log" >&2
    die "the build in $dir failed; the whole log is $dir/build.log."
  }
  say "built in $((SECONDS - begin)) s"
}
