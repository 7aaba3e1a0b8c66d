#!/usr/bin/env python3
"""Checks that no test judges by time or by the share of a core (README.md, "Rules"), as far as known forms of it show.

Usage: check_clocks.py SOURCE_ROOT

A line is shown for each fault: FILE:LINE: what is wrong, and the way out. tests/bench measures time, and is not read.
"""

import pathlib
import re
import sys

LEAST = 20  # seconds, of a limit that says that something hangs
ASSERTION = re.compile(r"\bassertLess(?:Equal)?\(|\b(?:EXPECT|ASSERT)_L[TE]\(")
# Time that has passed. A clock that is compared with a limit, as in loops that wait, is none of these.
PASSED = re.compile(r"\b(?:elapsed|took|lasted)\b|(?:monotonic|time|perf_counter|now)\(\) - |_s\"\]")
CPU_TIME = re.compile(r"\b(?:process_time|thread_time|cpu_times|cpu_percent|ru_utime|ru_stime|schedstat|CLOCK_\w+_CPUTIME_ID)\b")
LIMITS = (re.compile(r"\bmonotonic\(\) \+ ([\d.]+) \* (?:harness\.)?SLOW"), re.compile(r"\.wait\(([\d.]+)\)"),
          re.compile(r"\.wait_for\(.*, ([\d.]+)\)"))
COUNT = "count wake-ups, system calls, frames or probes, or use virtual time"


def arguments(text, at):
    """Of the call whose bracket is before `at`."""
    found, depth, begin, quote = [], 0, at, ""
    for place in range(at, len(text)):
        char = text[place]
        if quote:
            quote = "" if char == quote and text[place - 1] != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}" and depth:
            depth -= 1
        elif char in "),}]" and not depth:
            found.append(text[begin:place].strip())
            begin = place + 1
            if char != ",":
                break
    return found


def seconds(text):
    """The value of one of C++'s durations; None for any other text."""
    match = re.fullmatch(r"(?:std::chrono::)?seconds\((\d+)\)|(\d+)s", text)
    return float(match[1] or match[2]) if match else None


def faults(path):
    """(line, text) of each."""
    text = path.read_text(encoding="utf-8")
    line_of = lambda at: text.count("\n", 0, at) + 1  # noqa: E731
    for match in ASSERTION.finditer(text):
        given = arguments(text, match.end())
        limit = seconds(given[1]) if len(given) > 1 else None
        if PASSED.search(given[0]) and (limit is None or limit < LEAST):
            yield line_of(match.start()), f"a busy machine makes this fail: {given[0]}; {COUNT}"
    for match in CPU_TIME.finditer(text) if path.suffix == ".py" or "unit" in path.parts else ():
        yield line_of(match.start()), f"the share of a core is the machine's: {match[0]}; {COUNT}"
    for form in LIMITS if path.suffix == ".py" else ():
        for match in form.finditer(text):
            if float(match[1]) < LEAST:
                yield line_of(match.start()), f"a busy machine takes longer than {match[1]} s; give it at least {LEAST}"


def files(root):
    for path in sorted((root / "tests").rglob("*")):
        folder = path.relative_to(root / "tests").parts[0]
        if path.suffix in (".py", ".cc", ".h") and folder != "bench" and not path.name.startswith("check_clocks"):
            yield path


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    checked = bad = 0
    for path in files(root):
        checked += 1
        for line, text in sorted(faults(path)):
            print(f"{path.relative_to(root)}:{line}: {text}")
            bad += 1
    print(f"{checked} files, {bad} faults")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
