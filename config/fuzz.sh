#!/bin/bash
# Usage: config/fuzz.sh TARGET SECONDS [libFuzzer options], or config/fuzz.sh --list for the targets.
# The corpus grows in build-fuzz/corpus/TARGET. An input that fails is left in build-fuzz/, and its path is printed.
# UROCE_FUZZ_SEED=N fixes the seed, so that the run can be repeated.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

dir=build-fuzz

prepare() {
  install_packages test
  [ -f $dir/build.ninja ] || CXX=clang++-19 configure $dir -Dbuildtype=debugoptimized -Doptimization=2 \
    -Db_sanitize=address,undefined -Db_lundef=false "-Dcpp_args=['-fsanitize=fuzzer-no-link','-fno-sanitize-recover=all']"
  ninja -C $dir -t targets all | sed -n 's|^\(tests/fuzz/fuzz_[a-z0-9_]*\): .*|\1|p' | sort -u >$dir/targets
  [ -s $dir/targets ] || die "$dir has no target tests/fuzz/fuzz_*; is tests/fuzz there?"
}

case ${1:-} in
  --list)
    prepare >&2
    sed 's|.*/fuzz_||' $dir/targets
    ;;
  '' | -h | --help)
    sed -n '2,4s/^# //p' "$0"
    ;;
  *)
    [ $# -ge 2 ] || die "the number of seconds is missing; for example: config/fuzz.sh $1 60"
    name=${1#fuzz_} seconds=$2
    shift 2
    prepare
    grep -qx "tests/fuzz/fuzz_$name" $dir/targets ||
      die "unknown fuzz target '$name'; the targets are: $(sed 's|.*/fuzz_||' $dir/targets | tr '\n' ' ')"
    # shellcheck disable=SC2154
    compile $dir "tests/fuzz/fuzz_$name"
    mkdir -p "$dir/corpus/$name"
    seeds=()
    [ ! -d "tests/fuzz/corpus/$name" ] || seeds=("tests/fuzz/corpus/$name")
    say "fuzzing $name for $seconds s"
    "$dir/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -seed="${UROCE_FUZZ_SEED:-0}" -timeout=20 -rss_limit_mb=4096 \
      -print_final_stats=1 -artifact_prefix="$dir/$name-" "$@" "$dir/corpus/$name" "${seeds[@]}"
    ;;
esac
