#!/usr/bin/env python3
"""Runs rdma-core's own tests, which Debian ships with python3-pyverbs, on whatever libibverbs COMMAND makes them find.

Usage: rdma_core_tests.py [--at-least N] [--table] COMMAND [ARGUMENT ...]

Example: rdma_core_tests.py --table --at-least 87 uroce-run

Fails when a test fails, or when fewer than N pass. --table prints what became of each module, and why tests were
skipped, as Markdown. Exits with 77 (skipped) when the tests are not installed.
"""

import argparse
import collections
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the one that python3-pyverbs is built for
SKIPPED = 77
# "test_x (tests.test_cq.CQTest.test_x)", maybe a line of description, then "... ok" or "... skipped 'why'".
NAMED = re.compile(r"^test_\w+ \(tests\.(\w+)\.")
RESULT = re.compile(r"\.\.\. (ok|skipped|FAIL|ERROR)(?: ['\"](.*)['\"])?$")


def unpack(to):
    for path in SHIPPED.iterdir():
        if path.suffix == ".gz":
            (to / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, to)


def read_results(text):
    """Per module how many had each result, and per reason how many were skipped."""
    modules = collections.defaultdict(collections.Counter)
    reasons = collections.Counter()
    module = None
    for line in text.splitlines():
        named = NAMED.match(line)
        if named:
            module = named.group(1)
        result = RESULT.search(line)
        if result and module:
            modules[module][result.group(1)] += 1
            if result.group(1) == "skipped":
                reasons[result.group(2)] += 1
    return modules, reasons


def print_table(modules, reasons):
    print("| module | passed | failed | skipped |\n|---|---|---|---|")
    for name, counts in sorted(modules.items()):
        print(f"| `{name}` | {counts['ok']} | {counts['FAIL'] + counts['ERROR']} | {counts['skipped']} |")
    print("\n| skipped | because |\n|---|---|")
    for reason, count in reasons.most_common():
        print(f"| {count} | {reason} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--at-least", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not SHIPPED.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode != 0:
        print("python3-pyverbs is not installed")
        return SKIPPED

    with tempfile.TemporaryDirectory(prefix="rdma-core-tests.") as folder:
        tests = pathlib.Path(folder) / "tests"
        tests.mkdir()
        unpack(tests)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        run = subprocess.run(
            [*options.command, PYTHON, "-W", "ignore", "run_tests.py", "-v"], cwd=tests, env=environment, capture_output=True, text=True
        )
    modules, reasons = read_results(run.stderr)
    passed = sum(counts["ok"] for counts in modules.values())
    failed = sum(counts["FAIL"] + counts["ERROR"] for counts in modules.values())
    good = failed == 0 and run.returncode == 0
    if options.table:
        print_table(modules, reasons)
    if not good:
        print(run.stdout[-2000:], run.stderr[-20000:], sep="\n")
    print(f"{passed} passed, {failed} failed, {sum(reasons.values())} skipped; exit code {run.returncode}")
    return 0 if good and passed >= options.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
