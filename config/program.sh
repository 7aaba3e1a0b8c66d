#!/bin/bash
# Runs the program of the build folder by whose name it is called, and builds it first where it is missing. config/env.sh
# makes links to this script.
set -euo pipefail

name=${0##*/}
root=$(dirname "$(readlink -f "$0")")/..
build=$(realpath "$root")/build
case $name in
  uroced) needs=(apps/uroced/uroced) ;;
  uroce) needs=(apps/uroce/uroce) ;;
  # With the daemon, which it starts where none runs.
  uroce-run) needs=(apps/uroce-run/uroce-run apps/uroced/uroced lib/dropin/ibverbs/libibverbs.so.1
    lib/dropin/rdmacm/librdmacm.so.1 lib/dropin/sysfs/liburoce-sysfs.so) ;;
  uroce_nvmf) needs=(apps/nvmf/uroce_nvmf) ;;
  uroce_*) needs=(apps/uroce_perf) ;;
  *)
    echo "$name: no program of uroce has this name; config/env.sh makes links to this script" >&2
    exit 127
    ;;
esac

complete() {
  local part
  for part in "${needs[@]}"; do [ -e "$build/$part" ] || return 1; done
}

# One build at a time: programs are often started together.
make_complete() (
  flock 9
  ! complete || exit 0
  # shellcheck source=config/common.sh
  . "$root/config/common.sh"
  say "$name is not built yet; building it in $build ($jobs jobs)"
  install_packages build 9>&- </dev/null
  configure build 9>&-
  ninja -C build -j "$jobs" "${needs[@]}" 9>&- || die "$name could not be built; ninja's messages are above."
) 9>"$build/path/lock" >&2

complete || make_complete
exec -a "$name" "$build/${needs[0]}" "$@"
