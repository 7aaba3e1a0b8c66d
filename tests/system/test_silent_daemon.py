#!/usr/bin/env python3
"""The daemon is killed, stopped or deaf while `uroce` asks it: each command says what it waits for, and ends."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import harness
import test_tools
from test_tools import UROCE


class KilledDaemon(test_tools.Tools):
    def test_commands_that_repeat_end(self):
        daemon = self.demo()
        repeating = [self.start([UROCE, "--socket", self.socket, *args, "--interval", "0.2"]) for args in (["stat", "--all"], ["top"])]
        for one in repeating:
            one.wait_for("rx_packets" if "stat" in one.command else "ENGINE", 30)
        daemon.kill()
        for one in repeating:
            self.assertRegex(self.finish(one, 30, 1), rf"uroce: .*uroce daemon.* at {self.socket}")

    def test_pings_end(self):
        daemon = self.demo("--set", "daemon.answer_pings=false")
        answer = self.start([UROCE, "ping", "--answer", "--socket", self.socket])
        answer.wait_for("answering pings", 20)
        # While the daemon is stopped, its end finds this one in the middle of a call.
        daemon.process.send_signal(signal.SIGSTOP)
        ping = self.start([UROCE, "ping", "10.117.0.2", "--socket", self.socket])
        ping.wait_for("waiting for the uroce daemon", 25)
        daemon.kill()
        self.assertIn("the uroce daemon has ended, and the answers to pings with it", self.finish(answer, 30, 1))
        self.assertIn("it closed the connection; its log says why", self.finish(ping, 30, 1))


class StoppedDaemon(test_tools.Tools):
    """It holds its socket, and answers nobody."""

    def stopped(self):
        daemon = self.demo()
        daemon.process.send_signal(signal.SIGSTOP)
        limit = time.monotonic() + 30 * harness.SLOW
        stat = pathlib.Path(f"/proc/{daemon.process.pid}/stat")
        while ") T " not in stat.read_text():
            self.assertLess(time.monotonic(), limit, "not stopped within 30 s")
        return daemon

    def test_the_tool_says_what_it_waits_for(self):
        daemon = self.stopped()
        said = f"uroce: waiting for the uroce daemon at {self.socket} (process {daemon.process.pid}, stopped): up to 30 s\n"
        waiting = [self.start([UROCE, "--socket", self.socket, *args]) for args in (["devices"], ["stat"], ["ping", "10.117.0.2"])]
        for one in waiting:
            one.wait_for(said, 25)
        daemon.process.send_signal(signal.SIGCONT)
        for one in waiting:
            output = self.finish(one, 60)
            self.assertEqual(output.count("waiting for"), 1, output)
            self.assertIn("uroce0", output)

    def test_a_capture_says_it_once(self):
        daemon = self.demo()
        capture = self.start([UROCE, "--socket", self.socket, "capture", "--device", "uroce0", "-w", self.directory / "wire.pcapng"])
        capture.wait_for("capturing", 30)
        daemon.process.send_signal(signal.SIGSTOP)
        capture.wait_for(f"the uroce daemon (process {daemon.process.pid}) is stopped", 30)
        daemon.process.send_signal(signal.SIGCONT)
        capture.process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(capture, 30).count("is stopped"), 1)

    def test_a_second_signal_ends_what_waits(self):
        daemon = self.demo()
        repeating = [self.start([UROCE, "--socket", self.socket, *args]) for args in (["stat", "--all", "--interval", "0.2"],
                                                                                   ["trace", "--device", "uroce0", "--qp", "1"])]
        for one, first in zip(repeating, ("rx_packets", "tracing")):
            one.wait_for(first, 30)
        daemon.process.send_signal(signal.SIGSTOP)
        for one in repeating:
            one.wait_for("waiting for the uroce daemon", 25)
            one.process.send_signal(signal.SIGINT)
        for one in repeating:
            # The first may still be on its way: pending signals of one kind are one.
            limit = time.monotonic() + 30 * harness.SLOW
            while one.process.poll() is None:
                self.assertLess(time.monotonic(), limit, str(one))
                one.process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            self.assertNotIn("no reply within 30 s", one.output)

    def test_the_doctor_finds_it(self):
        daemon = self.stopped()
        said = subprocess.run([UROCE, "doctor", "--json", "--socket", self.socket], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual((said.returncode, said.stderr), (1, ""))
        found = {one["topic"]: one for one in json.loads(said.stdout)}["daemon"]
        self.assertEqual(found["verdict"], "bad")
        self.assertIn(f"the uroce daemon at {self.socket} (process {daemon.process.pid}) is stopped", found["text"])
        self.assertIn(f"kill -CONT {daemon.process.pid}", found["remedy"])
        daemon.process.send_signal(signal.SIGCONT)
        self.assertIn("serves 2 devices", self.uroce("doctor", "--socket", self.socket))


class DeafDaemon(test_tools.Tools):
    """A program with the daemon's socket that says nothing: this test."""

    def listen(self, backlog):
        listener = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind(str(self.socket))
        listener.listen(backlog)
        return listener

    def test_it_takes_the_connection(self):
        listener = self.listen(8)
        asked = self.start([UROCE, "stat", "--socket", self.socket])
        with listener.accept()[0]:
            asked.wait_for(f"uroce: waiting for the uroce daemon at {self.socket} (process {os.getpid()}): up to 30 s\n", 25)
        self.assertIn("it closed the connection", self.finish(asked, 20, 1))

    def test_it_takes_none(self):
        """Linux lets one more in than the backlog says."""
        listener = self.listen(0)
        waiting = [self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(str(self.socket))
        doctor = self.start([UROCE, "doctor", "--socket", self.socket])
        asked = self.start([UROCE, "stat", "--socket", self.socket])
        self.assertRegex(self.finish(doctor, 20, 1), rf"(?m)^bad  daemon: {self.socket}: no connection within 1000 ms")
        asked.wait_for(f"uroce: waiting for the uroce daemon at {self.socket}: up to 30 s\n", 25)
        listener.close()
        self.finish(asked, 20, 1)


if __name__ == "__main__":
    harness.main()
