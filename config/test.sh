#!/bin/bash
# Usage: config/test.sh [--sanitize[=core|virtual|real]] [--long] [--build] [--no-guests | --no-system], or config/test.sh --quick FOLDER.
# Builds everything and runs every test.
#   --sanitize   instead runs the unit, script and simulation tests under AddressSanitizer and UndefinedBehaviorSanitizer;
#                =core: only those of the protocol and the daemon's side, in half the time. They are built alike for their two
#                parts: =virtual, tests in virtual time, which may wait for a processor for as long as they like; =real, the others
#   --quick      instead runs the unit and script tests of lib/FOLDER; builds only what they need, and installs no package
#   --build      only builds
#   --no-guests  leaves out the tests that boot a guest in QEMU
#   --no-system  leaves out all tests of whole programs; needs neither root nor packages that only those need
#   --long       also makes 100,000 connections in a row, 2,000,000 registrations, 200 iSER logins, 100 runs of qperf -cm1 and,
#                where it can fetch SPDK, 100 of its benchmark on each target (20 minutes), runs programs of Debian 11, 12
#                and unstable, runs programs against the rxe of Debian 13's kernel, and runs clang-tidy on every file (20
#                minutes) and libFuzzer (20 s for each target, after a build with clang)
# The last line is `N passed, N failed, N skipped` and counts test cases. The exit code is not 0 when one failed.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

sanitize=no long=no quick= run=yes kind=test
leave_out=()
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) sanitize=yes ;;
    --sanitize=core | --sanitize=virtual | --sanitize=real) sanitize=${1#*=} ;;
    --long) long=yes ;;
    --build) run=no ;;
    --no-guests) leave_out=(--no-suite guests) ;;
    --no-system) leave_out=(--no-suite system) kind=build ;;
    --quick)
      quick=${2:-}
      [ -d "lib/${quick:-none}" ] || die "--quick takes a folder of lib/, such as transport, not '$quick'."
      shift
      ;;
    -h | --help) sed -n '2,15s/^# //p' "$0"; exit 0 ;;
    *) die "unknown option '$1'; test.sh --help shows those that it has." ;;
  esac
  shift
done

begin=$SECONDS
[ -n "$quick" ] || install_packages $kind
steps=()

# step NAME COMMAND...: runs one check that is not a meson test, and records its result.
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
  meson test -C "$dir" --no-rebuild --num-processes 2 --print-errorlogs "$@" 2>&1 | meson_steps | progress || true
  [ -s "$dir/meson-logs/testlog.junit.xml" ] || die "meson test left no result in $dir/meson-logs."
  steps+=("$dir/meson-logs/testlog.junit.xml")
}

# tests_like DIR REGEX names|targets: the tests whose names match, or the targets to build for them.
tests_like() {
  meson introspect "$1" --tests | python3 -c '
import json, os, re, sys
build, names, what = sys.argv[1:]
tests = [(t["name"], os.path.relpath(t["cmd"][0], build)) for t in json.load(sys.stdin) if re.match(names, t["name"])]
print("\n".join(sorted({name if what == "names" else target for name, target in tests if target[:2] != ".."})))' "$@"
}

# choose DIR REGEX: sets `names` and `targets` to those tests.
choose() {
  mapfile -t targets < <(tests_like "$1" "$2" targets)
  mapfile -t names < <(tests_like "$1" "$2" names)
  [ -n "${names[*]}" ] || die "meson lists no test in $1 that matches $2."
}

targets=() names=()
if [ $sanitize != no ]; then
  # clang takes six tenths of GCC's time for it, and finds other faults. Tests look for the macro, which only GCC defines.
  CXX=clang++-19 configure build-sanitize -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false \
    "-Dcpp_args=['-fno-sanitize-recover=all','-fno-omit-frame-pointer','-D__SANITIZE_ADDRESS__']"
  virtual='unit-(base|wire|net|memory|queues|faults|validate|transport|loss|congestion)$|(script|sim|fuzz)-'
  real='unit-(control|cm|message|service)$'
  patience=25
  [ $sanitize = yes ] || choose build-sanitize "($virtual|$real)"
  compile build-sanitize "${targets[@]}"
  [ $run = yes ] || exit 0
  case $sanitize in
    virtual) choose build-sanitize "($virtual)"; patience=100 ;;
    real) choose build-sanitize "($real)" ;;
  esac
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  run_tests build-sanitize --no-suite system --timeout-multiplier $patience "${names[@]}"
elif [ -n "$quick" ]; then
  configure build
  case $quick in
    transport) choose build '(unit-(transport|loss|congestion)$|script-(?!cm-))' ;;
    cm) choose build '(unit-cm$|script-cm-)' ;;
    *) choose build "unit-$quick(-|\$)" ;;
  esac
  compile build "${targets[@]}"
  [ $run = yes ] || exit 0
  run_tests build "${names[@]}"
else
  configure build
  # Guests' kernels come while the compiler runs.
  kernels=
  if [ $run = yes ] && [ -z "${leave_out[*]}" ]; then
    {
      tests/interop/kernel.py build/interop-kernel || true
      tests/interop/kernel.py build/interop-kernel-trixie --release trixie || true
    } &
    kernels=$!
  fi
  compile build
  [ $run = yes ] || exit 0
  [ $kind = build ] || config/hugepages.sh || true
  [ -z "$kernels" ] || wait "$kernels"
  run_tests build "${leave_out[@]}"
  [ $kind = build ] || step clang-format config/lint.sh format
  if [ $long = yes ]; then
    step "100,000 connections" env UROCE_BUILD=build UROCE_CONNECTIONS=100000 tests/system/test_connections.py one_after
    step "2,000,000 registrations" env UROCE_BUILD=build UROCE_CYCLES=1000000 tests/system/test_ordinary_memory.py cycles
    step "200 iSER logins, 100 runs of qperf" env UROCE_BUILD=build UROCE_LOGINS=200 UROCE_QPERF_RUNS=100 \
      tests/system/test_frameworks.py test_iser test_qperf
    tests/interop/spdk.py build/interop-spdk || true
    step "200 runs of SPDK" env UROCE_BUILD=build UROCE_SPDK_RUNS=100 tests/interop/test_spdk.py test_host_ends
    step "a release with a later protocol" env UROCE_BUILD=build UROCE_NEXT_RELEASE=1 tests/system/test_versions.py Builds
    step "programs of Debian 11, 12 and unstable" env UROCE_BUILD=build UROCE_DISTRIBUTIONS="bullseye bookworm sid" \
      tests/system/test_distributions.py
    step "programs with Debian 13's rxe" env UROCE_BUILD=build UROCE_KERNEL=build/interop-kernel-trixie \
      tests/interop/test_rxe.py Programs
    step clang-tidy env UROCE_TIDY_SECONDS="${UROCE_TIDY_SECONDS:-2400}" config/lint.sh tidy
    for target in $(config/fuzz.sh --list); do
      step "fuzz $target" env UROCE_FUZZ_SEED=1 config/fuzz.sh "$target" "${UROCE_FUZZ_SECONDS:-20}" -verbosity=0
    done
  fi
fi

say "took $((SECONDS - begin)) s"
python3 config/summary.py "${steps[@]}"
