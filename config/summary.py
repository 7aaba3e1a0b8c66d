#!/usr/bin/env python3
"""Counts test cases from JUnit files and single steps, and ends with the line `N passed, N failed, N skipped`.

Usage: summary.py [--step NAME=passed|failed|skipped]... [JUNIT.xml]...
Before it stand the failed cases, with the end of what their suites said to stderr. Exit code 1 when a case failed, or when there
was none at all.
"""

import argparse
import sys
import xml.etree.ElementTree as tree

LINES = 80  # of each suite: the end, where the reason stands


def cases(path):
    """(name, outcome) of each test case of a JUnit file."""
    for suite in tree.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            kinds = {child.tag for child in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            yield f"{suite.get('name')}: {case.get('name')}", outcome


def failures(path):
    """The end of what each suite with a failed case said to stderr."""
    for suite in tree.parse(path).getroot().iter("testsuite"):
        if suite.find("testcase/failure") is not None or suite.find("testcase/error") is not None:
            for said in suite.iter("system-err"):
                yield f"== {suite.get('name')}"
                yield from (said.text or "").splitlines()[-LINES:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", action="append", default=[])
    parser.add_argument("junit", nargs="*")
    args = parser.parse_args()

    found = [case for path in args.junit for case in cases(path)]
    found += [tuple(step.rsplit("=", 1)) for step in args.step]
    count = {outcome: sum(1 for _, o in found if o == outcome) for outcome in ("passed", "failed", "skipped")}
    for path in args.junit:
        for line in failures(path):
            print(line)
    for outcome in ("skipped", "failed"):
        for name, o in found:
            if o == outcome:
                print(f"{outcome}: {name}")
    print(", ".join(f"{n} {outcome}" for outcome, n in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
