#!/bin/bash
# Usage: config/ci/install.sh [FOLDER]
# Installs uroce-run, its devices and ibverbs-utils in a job of continuous integration, as root on Debian. The packages come
# from FOLDER, by default build-package. Where it lacks those of this version they are built into it, so let the job cache it.
folder=$(realpath -m "${1:-$(dirname "$0")/../../build-package}")
# shellcheck source=config/common.sh
. "$(dirname "$0")/../common.sh"

version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
packages=("$folder"/{uroce,uroce-verbs}_"${version}_$(dpkg --print-architecture)".deb)
apt-get update -qq || die "apt-get could not update the lists of packages; see its message above."
if [ ! -f "${packages[1]}" ]; then
  config/package.sh "$folder"
  rm -f "$folder"/*-dbgsym_*  # large, and no job needs them
fi
apt_install "${packages[@]}" ibverbs-utils || die "apt-get could not install ${packages[*]}; see its message above."
say "installed $(uroce-run --version)"
