#!/usr/bin/env python3
"""rdma-core's own tests, as Debian ships them in python3-pyverbs, under uroce-run."""

import collections
import gzip
import pathlib
import re
import shutil

import harness
import verbs

TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
# Linux rxe of kernel 6.1 passes this many.
RXE_PASSES = 86


def unpack(target):
    """Debian compresses some of the files."""
    target.mkdir()
    for path in TESTS.iterdir():
        if path.suffix == ".gz":
            (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            shutil.copy(path, target)
    return target


class Pyverbs(verbs.Case):
    def test_rdma_core(self):
        if not TESTS.is_dir():
            self.skipTest(f"{TESTS} is not there: package python3-pyverbs, installed without its documents")
        passed, skipped, output = run(self)
        failures = output.partition("=" * 70)[2]
        self.assertEqual(re.findall(r"(?m)^(?:FAIL|ERROR): .*", output), [], failures)
        self.assertGreater(passed, RXE_PASSES, output[-2000:])
        self.assertGreater(sum(skipped.values()), 0, "the reasons of what was skipped are not understood")


def run(case):
    """Passed, how many were skipped by reason, and all that was said."""
    folder = unpack(case.directory / "tests")
    program = case.start([verbs.RUN, "/usr/bin/python3", folder / "run_tests.py", "-v"], env=case.env)
    program.wait(400)
    output = program.output
    skipped = collections.Counter(re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", output, re.M))
    return len(re.findall(r"\.\.\. ok$", output, re.M)), skipped, output


if __name__ == "__main__":
    harness.main()
