#!/bin/bash
# Usage: debian/install_from.sh BUILD DESTINATION
# Installs what a finished Meson build folder has below DESTINATION, with the prefix /usr whatever the folder's own is.
set -euo pipefail

build=$1 destination=$2
option() { meson introspect "$build" --buildoptions | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"; }

prefix=$(option prefix) libdir=$(option libdir)
wanted=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
if [ "$libdir" != "$wanted" ]; then
  echo "error: the libraries of $build go to $libdir, and Debian's to $wanted; set it up with -Dlibdir=$wanted." >&2
  exit 1
fi
meson install -C "$build" --no-rebuild --quiet --destdir "$(realpath -m "$destination")"
[ "$prefix" != /usr ] || exit 0
mkdir -p "$destination/usr"
cp -a "$destination$prefix/." "$destination/usr/"
rm -r "${destination:?}$prefix"
sed -i 's:^prefix=.*:prefix=/usr:' "$destination/usr/$libdir"/pkgconfig/*.pc
