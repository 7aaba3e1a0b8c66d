#!/bin/bash
# Usage: config/aarch64.sh
# Compiles the ICRC kernel of aarch64 (lib/wire/crc/pmull.cc) with a cross compiler, and runs its tests under QEMU's
# user-mode emulation. No part of test.sh. Debian packages: g++-aarch64-linux-gnu, qemu-user, googletest.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

cxx=aarch64-linux-gnu-g++
gtest=/usr/src/googletest/googletest
for program in "$cxx" qemu-aarch64; do
  command -v "$program" >/dev/null || die "$program is missing: apt-get install g++-aarch64-linux-gnu qemu-user."
done
[ -d "$gtest" ] || die "$gtest is missing: apt-get install googletest."

build="build-aarch64"
mkdir -p "$build"
flags=(-std=c++23 -O2 -g1 -Wall -Wextra -Wpedantic -Wshadow -Wold-style-cast -Werror)
# As in meson.build: GCC 12 warns of correct code of its library.
flags+=(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -I. -Ilib -Iinclude)

# object SOURCE [flags]: compiles it, and adds it to `objects`.
object() {
  local out=$build/${1//\//_}.o
  "$cxx" "${flags[@]}" "${@:2}" -c "$1" -o "$out"
  objects+=("$out")
}

say "compiling in $build"
objects=()
object "$gtest/src/gtest-all.cc" "-I$gtest" "-I$gtest/include" -w
object "$gtest/src/gtest_main.cc" "-I$gtest/include" -w
for source in lib/wire/crc/{choice,table}.cc lib/wire/icrc.cc; do object "$source"; done
object lib/wire/crc/pmull.cc -march=armv8-a+crypto+crc
for source in tests/unit/wire/{crc_kernel,icrc}_test.cc; do object "$source" -isystem "$gtest/include"; done
"$cxx" -pthread "${objects[@]}" -o "$build/crc_test"

say "running under QEMU"
qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu "$build/crc_test" --gtest_brief=1
