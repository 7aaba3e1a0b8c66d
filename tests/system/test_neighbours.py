#!/usr/bin/env python3
"""Other programs live on as well while both daemons are replaced in turn: pyverbs, and a disk that uroce_nvmf serves.

UROCE_RESTARTS=N makes N restarts."""

import pathlib
import re
import signal
import subprocess
import unittest

import harness
import test_alive
import test_nvmf
from test_alive import RESTARTS, RUN

NEIGHBOUR = pathlib.Path(__file__).resolve().parent / "clients" / "neighbour.py"
PYTHON = "/usr/bin/python3"  # the one that python3-pyverbs is built for
ADDRESS = "192.0.2.1"  # of the first daemon


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Neighbours(test_alive.Case):
    def setUp(self):
        super().setUp()
        self.daemons = [self.serve(name) for name in self.names]

    def under(self, number, command, start_line):
        """A program of one of the daemons, from when it says so."""
        daemon = self.daemons[number]
        one = self.start(command, daemon.space, {"UROCE_SOCKET": str(daemon.socket)})
        if start_line:
            one.wait_for(start_line, 60)
        return one

    def disk(self):
        """The target, and a host that writes, reads and compares."""
        target = self.under(0, [test_nvmf.NVMF, "--daemon", "--namespace", "memory:32M", "--nqn", test_nvmf.DISKS, "--allow-host",
                                test_nvmf.NQN], "serving")
        host = self.under(1, [test_nvmf.HOST, "uroce0", ADDRESS, test_nvmf.DISKS, test_nvmf.NQN, "3", str(1 << 30)], "queues are open")
        return target, host

    def pyverbs(self):
        """Server and client of neighbour.py."""
        port, program = harness.free_port(), [RUN, PYTHON, NEIGHBOUR]
        server = self.under(0, [*program, port], None)
        harness.wait_for_listener(self.daemons[0].space, port, server, 20)
        client = self.under(1, [*program, port, f"10.199.0.{1 + self.names.index(self.daemons[0].space)}"], "running")
        return server, client

    def restart(self, *programs):
        for number in range(max(RESTARTS, 4)):
            self.daemons[number % 2] = self.successor_of(self.daemons[number % 2])
            for one in programs:
                self.assertIsNone(one.process.poll(), f"after {number + 1} restarts: {one}")

    @unittest.skipUnless(test_nvmf.NVMF.exists() and test_nvmf.HOST.exists(), "uroce_nvmf is not built")
    def test_neighbours(self):
        if not RUN.exists() or pyverbs_is_missing():
            self.skipTest("python3-pyverbs is not installed")
        (target, host), (server, client) = self.disk(), self.pyverbs()
        self.restart(target, host, server, client)
        for one in (host, client):
            one.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)
        self.finish(host, 90)
        target.process.send_signal(signal.SIGTERM)
        self.finish(target, 30)
        rounds = int(re.search(r"(\d+) rounds on 3 queues verified", host.output).group(1))
        asked, answered = (int(one.output.splitlines()[-1]) for one in (client, server))
        self.assertEqual(asked, answered)
        self.assertGreater(min(rounds, asked), 0)
        self.tell(disk_rounds=rounds, pyverbs_rounds=asked)


def pyverbs_is_missing():
    return subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True, check=False).returncode != 0


if __name__ == "__main__":
    harness.main()
