#!/usr/bin/env python3
"""Runs rdma-core's own tests, which Debian ships with python3-pyverbs, on whatever libibverbs COMMAND makes them find.

Usage: rdma_core_tests.py [--at-least N] [--table] [--without-rdma] COMMAND [ARGUMENT ...]

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
OF_ROOT = 4  # raw packets
# A warning would stand between a test's name and its result.
COMMAND = (PYTHON, "-W", "ignore", "run_tests.py", "-v")
# "test_x (tests.test_cq.CQTest.test_x)", maybe a line of description, then "... ok" or "... skipped 'why'". A test that prints
# has its `ok` on a line of its own.
NAMED = re.compile(r"^test_\w+ \(tests\.(\w+)\.")
RESULT = re.compile(r"(?:^|\.\.\. )(ok|skipped|FAIL|ERROR)(?: ['\"](.*)['\"])?$")


def missing():
    """Why they cannot run, or nothing."""
    if not SHIPPED.is_dir():
        return f"{SHIPPED} is not there: package python3-pyverbs, installed without its documents"
    if subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True, check=False).returncode:
        return "python3-pyverbs is not installed"
    return None


def unpack(folder, shipped=SHIPPED):
    """The tests in a new folder, which is returned; Debian compresses some of the files."""
    folder.mkdir()
    for path in shipped.iterdir():
        if path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            shutil.copy(path, folder)
    return folder


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
    parser.add_argument("--without-rdma", action="store_true", help="skip tests that ask `rdma` for devices, from rdma-core 50 on")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if reason := missing():
        print(reason)
        return SKIPPED

    with tempfile.TemporaryDirectory(prefix="rdma-core-tests.") as folder:
        tests = unpack(pathlib.Path(folder) / "tests")
        if options.without_rdma and "'rdma', 'link'" in (tests / "base.py").read_text():
            print("these tests ask `rdma` for devices, which shows ours under uroce-run alone; system-pyverbs runs them")
            return SKIPPED
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        run = subprocess.run(
            [*options.command, *COMMAND], cwd=tests, env=environment, capture_output=True, text=True, check=False)
    modules, reasons = read_results(run.stderr)
    passed = sum(counts["ok"] for counts in modules.values())
    failed = sum(counts["FAIL"] + counts["ERROR"] for counts in modules.values())
    good = failed == 0 and run.returncode == 0
    if options.table:
        print_table(modules, reasons)
    if not good:
        print(run.stdout[-2000:], run.stderr[-20000:], sep="\n")
    print(f"{passed} passed, {failed} failed, {sum(reasons.values())} skipped; exit code {run.returncode}")
    needed = options.at_least - (0 if os.geteuid() == 0 else OF_ROOT)
    return 0 if good and passed >= needed else 1


if __name__ == "__main__":
    sys.exit(main())
