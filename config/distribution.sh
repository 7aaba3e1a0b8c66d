#!/bin/bash
# Usage: config/distribution.sh RELEASE [--quick] [--build] [--fresh]
# Builds uroce in a root of another Debian, as trixie or sid, with the compiler and the libraries of that one, and runs all
# tests there that boot no guest. Only root may do it. The root and the build stay in build-distributions/RELEASE.
#   --quick   leaves out the tests of whole programs, and the packages that only those need
#   --build   only builds
#   --fresh   makes the root anew, from what the archive has now
# UROCE_MESON_OPTIONS has options of Meson for the build there, as "-Db_lto=true". They last until --fresh.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

release='' fresh=no
tests=(--no-guests)
for word in "$@"; do
  case $word in
    --quick) tests[0]=--no-system ;;
    --build) tests[1]=--build ;;
    --fresh) fresh=yes ;;
    -h | --help) sed -n '2,8s/^# //p' "$0" && exit 0 ;;
    -*) die "unknown option '$word'; distribution.sh --help shows those that it has." ;;
    *) release=$word ;;
  esac
done
[[ $release =~ ^[a-z]+$ ]] || die "name a release of Debian, as trixie or sid, not '$release'."
[ "$(id -u)" -eq 0 ] || die "only root can make and enter the root of another distribution."
for tool in mmdebstrap unshare chroot; do
  command -v $tool >/dev/null || die "$tool is missing; config/install.sh test installs it."
done

place=$PWD/build-distributions/$release
there=$place/root
mkdir -p "$place"
exec 9>"$place/lock"
flock --nonblock 9 || die "another config/distribution.sh $release is running; wait for its end."

# mmdebstrap's lines "Setting up NAME ..." as progress.
set_up_steps() {
  local line count=0
  while IFS= read -r line; do
    case $line in
      "Setting up "*) count=$((count + 1)) && printf '@ set up %d packages\n' $count ;;
      E:*) printf '%s\n' "$line" ;;
    esac
  done
}

# A mirror may be weeks behind. For a root that serves nobody its lists are good enough.
make_root() {
  say "making a root of Debian $release"
  rm -rf --one-file-system "$there" "$there.new"
  mmdebstrap --variant=minbase --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$there.new" 2>&1 | tee "$place/root.log" | set_up_steps | progress ||
    die "mmdebstrap could not make a root of '$release'; the log is $place/root.log."
  mv "$there.new" "$there"
}

# inside COMMAND...: in the root, with processes and mounts of its own. All that it starts ends with it. No chroot(2): user
# namespaces cannot be made in one.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child --propagation private bash -ec '
    mount --bind "$0" "$0"
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/run"
    cd "$0" && pivot_root . . && umount --lazy . && cd / && exec "$@"' "$there" env -C "${folder:-/}" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}

# The sources as they are, with those of their changes that are not committed yet. The builds of the root stay.
copy_tree() {
  local tree=$there/srv/uroce
  mkdir -p "$tree"
  find "$tree" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
  tar -c --exclude='./build*' --exclude='./.cache' --exclude=__pycache__ . | tar -x -C "$tree"
  for file in /etc/resolv.conf /etc/hosts; do [ ! -e $file ] || cp --remove-destination $file "$there$file"; done
}

if [ $fresh = yes ] || [ ! -d "$there" ]; then make_root; fi
copy_tree
folder=/srv/uroce
say "in $there: Debian $(cat "$there/etc/debian_version")"
if [ -n "${UROCE_MESON_OPTIONS:-}" ]; then
  # shellcheck disable=SC2016,SC2086
  inside bash -c '. config/common.sh && install_packages build && configure build "$@"' configure $UROCE_MESON_OPTIONS
fi
inside env UROCE_JOBS="$jobs" config/test.sh "${tests[@]}"
