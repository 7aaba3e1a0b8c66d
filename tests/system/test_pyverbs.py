#!/usr/bin/env python3
"""rdma-core's own tests, as Debian ships them in python3-pyverbs, under uroce-run."""

import collections
import os
import sys

import harness
import verbs

sys.path.insert(0, str(harness.SOURCE / "tests" / "abi"))
import rdma_core_tests  # noqa: E402

# As many as pass without huge pages, which three more need; Linux rxe of kernel 6.1 passes 86. Without a namespace ten fewer:
# they ask the kernel for an address.
PASSES = 155
OF_NAMESPACE = 10
# Those with raw packets.
OF_ROOT = 12


class Pyverbs(verbs.Case):
    def test_rdma_core(self):
        if reason := rdma_core_tests.missing():
            self.skipTest(reason)
        namespace = ["--netns"] if harness.may_make_namespaces() else []
        folder = rdma_core_tests.unpack(self.directory / "tests")
        program = self.start([verbs.RUN, *namespace, "env", "-C", folder, *rdma_core_tests.COMMAND], env=self.env)
        program.wait(400)
        modules, reasons = rdma_core_tests.read_results(program.output)
        results = sum(modules.values(), collections.Counter())
        self.assertEqual(results["FAIL"] + results["ERROR"], 0, program.output.partition("=" * 70)[2])
        root = os.geteuid() == 0
        missing = (0 if harness.may_make_namespaces() else OF_NAMESPACE) + (0 if root else OF_ROOT)
        self.assertGreaterEqual(results["ok"], PASSES - missing, program.output[-2000:])
        self.assertGreater(sum(reasons.values()), 0, "the reasons of what was skipped are not understood")


if __name__ == "__main__":
    harness.main()
