#!/usr/bin/env python3
"""A planned restart under programs of rdma_cm: their connections, listeners and events go on.

UROCE_RESTARTS=N makes N restarts in each case."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import time
import unittest

import harness
import preload
import replacing
from verbs import RUN

CONNECTIONS = harness.BUILD / "tests" / "system" / "clients" / "client_connections"
NEAR, FAR = "192.0.2.1", "192.0.2.2"
RESTARTS = int(os.environ.get("UROCE_RESTARTS", "3"))


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(CONNECTIONS.exists(), "the programs of rdma_cm are not built")
class Connections(replacing.Case):
    KEPT = "queue pairs, 0 clients refused"

    def setUp(self):
        super().setUp()
        self.far = self.serve(self.names[1])
        self.near = self.serve(self.names[0])

    def under(self, daemon, *command, env=None):
        """A program of a daemon."""
        return self.start([RUN, *command], daemon.space, {"UROCE_SOCKET": str(daemon.socket), **(env or {})})

    def listening(self, daemon, *command):
        """The same, from when it listens."""
        return preload.start_server(self, [RUN, *command], daemon.space, {"UROCE_SOCKET": str(daemon.socket)})[0]

    def acceptor(self, daemon, address):
        """The program that accepts connections, and its port. Its commands never come."""
        os.mkfifo(commands := self.directory / f"commands-{time.monotonic_ns()}")
        one = self.under(daemon, "sh", "-c", f'exec "$0" server {address} <>{commands}', CONNECTIONS)
        one.wait_for("port ", 20)
        return one, re.search(r"port (\d+)", one.output).group(1)

    def connecting(self, daemon, address, port, commands):
        return self.under(daemon, "sh", "-c", f'printf "{commands}" | "$0" client {address} {port}', CONNECTIONS)

    def replace_near(self, *programs):
        """True where it happened while the programs ran."""
        before, self.near = self.near, self.replace(self.near)
        if any(one.process.poll() is not None for one in programs):
            return False
        self.assertRegex(before.output, self.KEPT)
        return True

    def replaced_meanwhile(self, *programs):
        return all(self.replace_near(*programs) for _ in range(RESTARTS))

    def answers(self, program):
        return [json.loads(line) for line in program.output.splitlines() if line.startswith("{")]

    def cycles(self, server, client, address):
        """Connections begin and end all the time."""
        def run(seconds):
            accepts, port = self.acceptor(getattr(self, server), address)
            cycles = self.connecting(getattr(self, client), address, port, f"cycle {seconds * 400} 8\\n")
            lasted = self.replaced_meanwhile(accepts, cycles)
            self.finish(cycles, 200)
            (answer,) = self.answers(cycles)
            self.assertEqual((answer["failed"], answer["established"]), (0, seconds * 400), str(cycles))
            accepts.kill()
            self.assertNotIn("RDMA_CM_EVENT", accepts.output)
            return lasted
        self.while_it_lasts(run, [seconds + RESTARTS for seconds in (3, 30, 120)])

    def test_a_client_connects_all_the_time(self):
        self.cycles("far", "near", FAR)

    def test_a_server_is_connected_to_all_the_time(self):
        self.cycles("near", "far", NEAR)

    def test_a_listener_from_before(self):
        server, port = self.acceptor(self.near, NEAR)
        for _ in range(RESTARTS):
            self.assertTrue(self.replace_near(server))
            client = self.connecting(self.far, NEAR, port, "prepare 5\\nconnect 5\\nclose\\n")
            self.finish(client, 60)
            self.assertEqual([answer["failed"] for answer in self.answers(client)], [0, 0, 0])

    def test_events_that_a_program_has_not_read(self):
        server, port = self.acceptor(self.near, NEAR)
        with self.stopped(server):
            client = self.connecting(self.far, NEAR, port, "prepare 5\\nconnect 5\\nclose\\n")
            limit = time.monotonic() + 20 * harness.SLOW
            while self.counters(self.near.socket)["cm_req_received"] < 5 and time.monotonic() < limit:
                time.sleep(0.05)
            self.assertTrue(self.replaced_meanwhile(server, client))
        self.finish(client, 60)
        self.assertEqual([answer["established"] for answer in self.answers(client)], [0, 5, 5])

    @staticmethod
    @contextlib.contextmanager
    def stopped(program):
        """The program below uroce-run."""
        runner = program.process.pid
        (pid,) = map(int, pathlib.Path(f"/proc/{runner}/task/{runner}/children").read_text().split())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @unittest.skipUnless(shutil.which("rping"), "rping is not installed")
    def test_rping(self):
        server = self.listening(self.far, "rping", "-s", "-a", FAR, "-V")
        client = self.under(self.near, "rping", "-c", "-a", FAR, "-V", "-v", env=preload.ENVIRONMENT)
        client.wait_for("ping data: rdma-ping-9", 20)
        self.assertTrue(self.replaced_meanwhile(server, client))
        pings = re.compile(r"ping data: rdma-ping-(\d+)")
        before = int(pings.findall(client.output)[-1])
        client.wait_for(f"ping data: rdma-ping-{before + 100}:", 20)
        for one in (client, server):
            self.assertIsNone(one.process.poll(), str(one))
        client.kill()  # then the server ends, too
        server.kill()

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_perftest(self):
        def run(seconds):
            options = ["-R", "-D", seconds, "-s", "65536", "-F", "-p", port]
            server = self.listening(self.near, "ib_write_bw", *options)
            client = self.under(self.far, "ib_write_bw", *options, NEAR)
            lasted = self.replaced_meanwhile(server, client)
            self.finish_both(server, client, 60 + seconds)
            return lasted
        port = harness.free_port()
        self.while_it_lasts(run, [seconds + 2 * RESTARTS for seconds in (3, 30, 120)])


if __name__ == "__main__":
    harness.main()
