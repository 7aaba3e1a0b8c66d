#!/usr/bin/env python3
"""RDMA programs of other Debians, as those ship them, on the libraries and the daemon of this build. A container brings the
programs of its own distribution, and the host's libraries are mounted into it: they must load there.

UROCE_DISTRIBUTIONS="bullseye sid" names other ones than Debian 12 and 13; config/test.sh --long does."""

import collections
import os
import platform
import sys
import unittest

import harness
import other_debian
import test_cm_programs
import test_frameworks
import test_verbs_programs
import verbs

sys.path.insert(0, str(harness.SOURCE / "tests" / "abi"))
import rdma_core_tests  # noqa: E402

OWN = platform.freedesktop_os_release().get("VERSION_CODENAME")
RELEASES = os.environ.get("UROCE_DISTRIBUTIONS", " ".join({"bookworm", "trixie"} - {OWN})).split()
# Of rdma-core's own tests as each release has them, those that pass at least.
PYVERBS_PASSES = {"bookworm": 155, "trixie": 164}


class InRoot:
    """Cases whose programs are those of another Debian."""

    # Programs that spin and the engines share two cores.
    daemon_args = ("--idle", "sleep")
    release = None

    @classmethod
    def setUpClass(cls):
        cls.missing = other_debian.may_enter()
        try:
            cls.debian = None if cls.missing else other_debian.OtherDebian(cls.release)
        except unittest.SkipTest as without:
            cls.missing = str(without)
        super().setUpClass()

    def setUp(self):
        if self.missing:
            self.skipTest(self.missing)
        super().setUp()

    def words(self, *command):
        return self.debian.words(verbs.RUN, *command)

    def need(self, program):
        if not self.debian.has(program):
            self.skipTest(f"Debian {self.release} has no {program}")
        if program.startswith("ucx_") and not list(self.debian.root.glob("usr/lib/*/ucx/libuct_ib.so*")):
            self.skipTest(f"Debian {self.release} has a UCX without InfiniBand")


# One of the tests hands its processes what Python 3.14 would pickle, which it cannot.
COMMAND = (rdma_core_tests.PYTHON, "-W", "ignore", "-c", "import multiprocessing, os, runpy; multiprocessing.set_start_method('fork'); "
           "runpy.run_path(os.path.abspath('run_tests.py'), run_name='__main__')", "-v")


class Pyverbs(verbs.Case):
    def test_rdma_core(self):
        """rdma-core's own tests, of the version that the distribution has."""
        shipped = self.debian.root / rdma_core_tests.SHIPPED.relative_to("/")
        if not shipped.is_dir():
            self.skipTest(f"Debian {self.release} has no python3-pyverbs with tests")
        if not harness.may_make_namespaces():
            self.skipTest("may not make network namespaces (needs root)")
        folder = rdma_core_tests.unpack(self.directory / "tests", shipped)
        program = self.start(self.words("--netns", "env", "-C", folder, *COMMAND), env=self.env)
        program.wait(500)
        modules, _ = rdma_core_tests.read_results(program.output)
        results = sum(modules.values(), collections.Counter())
        self.assertEqual(results["FAIL"] + results["ERROR"], 0, program.output.partition("=" * 70)[2])
        self.assertGreaterEqual(results["ok"], PYVERBS_PASSES.get(self.release, 150), program.output[-2000:])


class Libraries(verbs.Case):
    def test_they_are_ours(self):
        """The programs below would also pass on an RDMA card with the distribution's own libraries."""
        output = self.finish(self.under("sh", "-c", "LD_DEBUG=libs exec ibv_devices"), 30)
        self.assertIn(f"calling init: {harness.BUILD}/lib/dropin/ibverbs/libibverbs.so.1", output)
        self.assertRegex(output, r"uroce0\s+[0-9a-f]{16}")


# The whole classes, or these cases of them: what differs between distributions are the programs and what they load, not sizes.
CASES = {
    Libraries: (),
    Pyverbs: (),
    test_verbs_programs.Pingpong: (),
    test_verbs_programs.Perftest: ("bandwidth", "latency", "extended_reliable_connection", "datagrams", "events", "shared_receive_queue"),
    test_cm_programs.Utilities: (),
    test_cm_programs.Rsockets: ("rcopy", "riostream", "rstream", "rstream_ways_of_waiting", "udpong"),
    test_cm_programs.Perftest: ("connections", "datagrams"),
    test_frameworks.Ucx: ("sees_the_devices", "messages", "one_sided", "the_transports_themselves"),
    test_frameworks.Libfabric: (),
}


def define_cases(release, case, chosen):
    """The class of one distribution, with a name such as TrixieUcx."""
    name = f"{release}_{case.__module__}".replace("__main__", "").replace("test_", "").title().replace("_", "") + case.__name__
    others = {test: None for test in dir(case) if chosen and test.startswith("test_") and test.removeprefix("test_") not in chosen}
    globals()[name] = type(name, (InRoot, case), {"release": release, "__module__": __name__, **others})


for _release in RELEASES:
    for _case, _chosen in CASES.items():
        define_cases(_release, _case, _chosen)
# Without a distribution they have no root.
del Libraries, Pyverbs, _case


if __name__ == "__main__":
    harness.main()
