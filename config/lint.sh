#!/bin/bash
# Usage: config/lint.sh [format] [tidy], by default both.
#   format   clang-format changes no file
#   tidy     clang-tidy reports nothing for lib/, pmd_glue/ and apps/. It stops after UROCE_TIDY_SECONDS (default 240) and
#            prints how many files are left. Files that git sees as changed come first.
# shellcheck source=config/common.sh
. "$(dirname "$0")/common.sh"

# A folder of its own, where each source is compiled alone.
build=build-lint

sources() { find "$@" \( -name '*.cc' -o -name '*.h' \) -type f | sort; }

format() {
  local bad
  bad=$(sources include lib pmd_glue apps tests | xargs -r clang-format-19 --dry-run -Werror 2>&1 |
    sed -n 's/:.*clang-format-violations.*//p' | sort | uniq -c || true)
  [ -z "$bad" ] && { say "format: clean"; return 0; }
  printf '%s\n' "$bad" >&2
  echo "error: the files above differ from .clang-format; run clang-format-19 -i on them." >&2
  return 1
}

tidy() {
  local budget=${UROCE_TIDY_SECONDS:-240} begin=$SECONDS all changed checked total
  configure "$build" -Dmerge_sources=false
  all=$(sources lib pmd_glue apps | grep '\.cc$' || true)
  [ -n "$all" ] || return 0
  total=$(wc -l <<<"$all")
  changed=$(git diff --name-only --diff-filter=d HEAD -- lib pmd_glue apps 2>/dev/null | grep '\.cc$' || true)
  rm -f "$build"/tidy.*
  : >"$build/tidy.done"
  # Prints the output for a file in one piece, and only when it has findings.
  # GCC reports what is deprecated; clang also reports what libstdc++ 12 itself uses in stable_sort.
  # shellcheck disable=SC2016
  printf '%s\n%s\n' "$changed" "$all" | awk 'NF && !seen[$0]++' |
    timeout "$budget" xargs -P "$jobs" -I{} bash -c '
      log=$(clang-tidy-19 --quiet -p "$0" --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-nested-anon-types --extra-arg=-Wno-deprecated-declarations "$1" 2>/dev/null)
      code=$?
      [ $code -lt 126 ] || exit 0
      [ $code -eq 0 ] || { printf "%s\n" "$log"; echo "$1" >>"$0/tidy.failed"; }
      echo "$1" >>"$0/tidy.done"' "$build" {} || true
  checked=$(wc -l <"$build/tidy.done")
  if [ -s "$build/tidy.failed" ]; then
    echo "error: clang-tidy found faults in $(wc -l <"$build/tidy.failed") of $checked files checked." >&2
    return 1
  fi
  [ "$checked" -eq "$total" ] ||
    say "tidy: stopped after $budget s with $((total - checked)) of $total files unchecked; raise UROCE_TIDY_SECONDS"
  say "tidy: $checked files clean in $((SECONDS - begin)) s"
}

[ $# -gt 0 ] || set -- format tidy
code=0
for step in "$@"; do
  case $step in
    format | tidy) $step || code=1 ;;
    *) die "unknown step '$step'; lint.sh has format and tidy." ;;
  esac
done
exit $code
