#!/bin/bash
# Builds everything and runs every test: config/test.sh [--sanitize[=core]] [--long]
#   --sanitize   the unit, script and simulation tests under AddressSanitizer and UndefinedBehaviorSanitizer instead;
#                =core: those of the protocol and the daemon's side alone, in half the time
#   --long       also 100,000 connections in a row, clang-tidy (4 minutes) and libFuzzer (20 s a target, after a build of
#                its own with clang)
# The last line is `N passed, N failed, N skipped`, counting test cases; the exit code is non-zero where one failed.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

sanitize=no long=no
for arg in "$@"; do
  case $arg in
    --sanitize) sanitize=yes ;;
    --sanitize=core) sanitize=core ;;
    --long) long=yes ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    *) die "test.sh knows --sanitize, --sanitize=core and --long, not '$arg'." ;;
  esac
done

begin=$SECONDS
install_packages test
steps=()

# step NAME COMMAND...: runs one check that is no meson test, and remembers how it went.
step() {
  local name=$1
  shift
  say "$name"
  if "$@"; then steps+=(--step "$name=passed"); else steps+=(--step "$name=failed"); fi
}

# run_tests DIR [meson test options]: at most two at a time, because a test may start two pollers of its own.
run_tests() {
  local dir=$1
  shift
  say "testing in $dir"
  rm -f "$dir"/meson-logs/testlog.junit.xml
  meson test -C "$dir" --no-rebuild --num-processes 2 --print-errorlogs "$@" || true
  [ -s "$dir/meson-logs/testlog.junit.xml" ] || die "meson test left no result in $dir/meson-logs."
  steps+=("$dir/meson-logs/testlog.junit.xml")
}

# core_tests DIR names|targets: what --sanitize=core runs, or what is built for it.
core_tests() {
  meson introspect "$1" --tests | python3 -c '
import json, os, re, sys
build, what = sys.argv[1:]
core = re.compile(r"unit-(base|wire|memory|queues|transport|loss|congestion|control|cm|message|service)$|(script|sim|fuzz)-")
tests = [t for t in json.load(sys.stdin) if core.match(t["name"])]
print("\n".join(sorted({t["name"] if what == "names" else os.path.relpath(t["cmd"][0], build) for t in tests})))' "$1" "$2"
}

if [ $sanitize != no ]; then
  # Lines are enough for a sanitizer's report; all of -g takes a quarter of the time to build.
  configure build-sanitize -Doptimization=1 -Ddebug=false -Db_sanitize=address,undefined -Db_lundef=false \
    "-Dcpp_args=['-g1','-fno-sanitize-recover=all','-fno-omit-frame-pointer']"
  targets=() names=()
  if [ $sanitize = core ]; then
    mapfile -t targets < <(core_tests build-sanitize targets)
    mapfile -t names < <(core_tests build-sanitize names)
    [ ${#names[@]} -gt 0 ] || die "meson lists no core test in build-sanitize."
  fi
  compile build-sanitize "${targets[@]}"
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  run_tests build-sanitize --no-suite system --timeout-multiplier 5 "${names[@]}"
else
  configure build
  compile build
  config/hugepages.sh || true
  tests/interop/kernel.py build/interop-kernel || true
  run_tests build
  step clang-format config/lint.sh format
  if [ $long = yes ]; then
    step "100,000 connections" env UROCE_BUILD=build UROCE_CONNECTIONS=100000 tests/system/test_connections.py one_after
    step clang-tidy config/lint.sh tidy
    for target in $(config/fuzz.sh --list); do
      step "fuzz $target" env UROCE_FUZZ_SEED=1 config/fuzz.sh "$target" "${UROCE_FUZZ_SECONDS:-20}" -verbosity=0
    done
  fi
fi

say "took $((SECONDS - begin)) s"
python3 config/summary.py "${steps[@]}"
