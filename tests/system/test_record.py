#!/usr/bin/env python3
"""Recordings of `uroced --record`: after traffic that every byte of is verified, after kill -ABRT and -9, after faults."""

import os
import re
import signal
import time
import unittest

import harness
import verbs
from harness import BUILD

UROCE = BUILD / "apps" / "uroce" / "uroce"
VERIFIER = BUILD / "tests" / "system" / "clients" / "client_verifier"


class Case(verbs.Case):
    daemon_args = ("--set", "engines.record_mib=32")

    def start_daemon(self):
        self.recordings = self.directory / "recordings"
        self.recordings.mkdir()
        self.daemon_args = ("--record", self.recordings, *self.daemon_args)
        return super().start_daemon()

    def files(self):
        found = sorted(self.recordings.iterdir())
        self.assertEqual(len(found), 2, found)
        return found

    def replay(self, file, *options, code=0):
        return self.finish(self.start([UROCE, "replay", file, *options]), 120, code)

    def replays(self):
        """Each recording does again what it did."""
        for file in self.files():
            said = harness.loads(self.replay(file, "--json"))
            self.assertIsNone(said["divergence"])
            self.assertGreater(said["frames_in"], 0)
            self.assertGreater(said["frames_out"], 0)
            self.assertIn("bit-exact", self.replay(file))
            yield said

    def verifier(self, *options):
        return self.start(self.words(VERIFIER, "uroce0", "uroce1", *options), env=self.env)

    def die_by(self, number):
        """The daemon ends by this signal in the middle of traffic."""
        again = f"while {VERIFIER} uroce0 uroce1 --messages 2000; do :; done"
        program = self.start(self.words("bash", "-c", again), env=self.env)
        limit = time.monotonic() + 60 * harness.SLOW
        while any(self.used(file) < 1 << 20 for file in self.files()):
            self.assertIsNone(program.process.poll(), program)
            self.assertLess(time.monotonic(), limit, "the recordings do not grow")
            time.sleep(0.02)
        os.kill(self.daemon.process.pid, number)
        self.daemon.wait(30)
        self.daemon = None
        self.kill_group(program)

    @staticmethod
    def used(file):
        with open(file, "rb") as opened:
            return int.from_bytes(opened.read(40)[32:40], "little")


class Recordings(Case):
    def test_traffic_is_the_same_again(self):
        self.finish(self.verifier("--messages", "300"), 60)
        completions = sum(said["completions"] for said in self.replays())
        self.assertGreaterEqual(completions, 600)

    def test_after_an_abort_under_traffic(self):
        self.die_by(signal.SIGABRT)
        for said in self.replays():
            self.assertGreater(said["completions"], 0)

    def test_after_a_kill_under_traffic(self):
        self.die_by(signal.SIGKILL)
        list(self.replays())

    def test_other_files_are_refused(self):
        file = self.files()[0]
        data = file.read_bytes()
        for name, bad, why in (("empty", b"", "it has 0 bytes"), ("other", b"x" * 4096, "its first bytes are others"),
                               ("build", data[:16] + bytes(8) + data[24:], "another version has written it")):
            wrong = self.directory / name
            wrong.write_bytes(bad)
            self.assertIn(why, self.replay(wrong, code=1))


class WithFaults(Case):
    """A fault ends a queue pair: the recording shows how."""

    def start_daemon(self):
        file = self.directory / "faults"
        file.write_text("drop rx opcode=send_only nth=40-100000\n")
        self.daemon_args = (*self.daemon_args, "--faults", file)
        return super().start_daemon()

    def test_the_end_of_a_queue_pair_is_replayed(self):
        program = self.verifier("--messages", "100")
        program.wait(60)
        self.assertIn("sender status 12", program.output)  # retry exceeded
        list(self.replays())
        qpn = re.search(r"qps (0x[0-9a-f]+)", program.output)[1]
        sent = [line for line in self.replay(self.files()[0], "--qp", qpn).splitlines() if "> RC SEND_ONLY" in line]
        self.assertGreaterEqual(len(sent), 39 + 8)  # seven retries
        self.assertTrue(all(" psn=39 " in line for line in sent[-4:]), sent[-4:])
        number = sent[-1].split()[0]
        stopped = self.replay(self.files()[0], "--qp", qpn, "--stop-at", number)
        self.assertIn(f"before: QP {qpn} RTS, peer", stopped)
        self.assertIn(f"after: QP {qpn} RTS, peer", stopped)
        self.assertIn("PSN unacknowledged 39, next 40, sent 40", stopped.splitlines()[-3])


if __name__ == "__main__":
    harness.main()
