#!/bin/bash
# Usage: config/package.sh [--from BUILD] [FOLDER]
# Builds the Debian packages into FOLDER, by default build-package. Compiles the sources with Debian's hardening flags.
#   --from BUILD   instead packages the programs of a finished Meson build folder, in half a minute
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

from='' folder=build-package
while [ $# -gt 0 ]; do
  case $1 in
    --from)
      [ -f "${2:-}/build.ninja" ] || die "--from takes a Meson build folder that is finished, not '${2:-}'."
      from=$(realpath "$2")
      shift
      ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    -*) die "unknown option '$1'; package.sh has --from BUILD." ;;
    *) folder=$1 ;;
  esac
  shift
done

install_packages package
version=$(dpkg-parsechangelog -S Version)
[ "$version" = "$(sed -n "/^project(/,/^)/s/^  version: '\(.*\)',/\1/p" meson.build)" ] ||
  die "debian/changelog has version $version, and meson.build another; they must be the same."

# dpkg-buildpackage writes beside and into the sources: it gets a copy.
mkdir -p "$folder"
folder=$(realpath "$folder")
source=$folder/uroce-$version
rm -rf "$source"
mkdir "$source"
tar -c --exclude-vcs --exclude='./build*' --exclude='./.cache' --exclude=__pycache__ . | tar -x -C "$source"

# debhelper gives programs another home, which would hide the cache of the compiler.
if command -v ccache >/dev/null; then CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)} && export CCACHE_DIR; fi
build_options="parallel=$jobs"
[ -z "$from" ] || { export UROCE_FROM=$from && build_options+=" noautodbgsym"; }
begin=$SECONDS log=$folder/package.log
say "building packages in $folder"
(cd "$source" && DEB_BUILD_OPTIONS=$build_options dpkg-buildpackage --build=binary --no-sign) >"$log" 2>&1 || {
  tail -n 30 "$log" >&2
  die "the packages could not be built; the whole log is $log."
}
rm -rf "$source"
say "built in $((SECONDS - begin)) s: $(cd "$folder" && echo ./*"_${version}_"*.deb)"
