#!/usr/bin/env python3
"""The daemon is killed under programs that poll, sleep and connect: each ends, or sees its error."""

import os
import signal
import time

import harness
import preload
import test_cm_programs
import verbs
from harness import SLOW

SERVER = test_cm_programs.SERVER


class Case(test_cm_programs.Case):
    def setUp(self):
        super().setUp()
        self.busy = set()  # numbers of queue pairs

    def kill_daemon(self):
        self.assertIsNone(self.daemon.process.poll(), str(self.daemon))
        self.daemon.kill()
        self.daemon = None

    def assert_ends(self, *programs, seconds=60):
        """All end by themselves, where they would run on for ever, none by a signal. Prints how long that took: 0.2 s at most on a
        quiet machine."""
        start = time.monotonic()
        for program in programs:
            program.wait(max(0.01, start / SLOW + seconds - time.monotonic() / SLOW))
        print(f"# ended after {time.monotonic() - start:.3f} s")
        for program in programs:
            self.assertGreaterEqual(program.process.returncode, 0, f"ended by a signal: {program}")

    def busy_pair(self, *command, port_option="-p"):
        """Server and client of one verbs program on the two devices, at work."""
        port = harness.free_port()
        server = self.under(*command, "-d", "uroce0", port_option, port)
        verbs.wait_for_listener(server, port)
        client = self.under(*command, "-d", "uroce1", port_option, port, "127.0.0.1")
        self.wait_until_busy(server, client)
        return server, client

    def wait_until_busy(self, *programs):
        """Returns once a queue pair of the first device, other than those of earlier calls, has moved on by 100 packets."""
        command = [harness.BUILD / "apps" / "uroce" / "uroce", "show", "qp", "uroce0", "--json"]
        limit = time.monotonic() + 20 * SLOW
        seen = {}
        moving = set()
        while not moving - self.busy and time.monotonic() < limit:
            for program in programs:
                self.assertIsNone(program.process.poll(), f"ended too early: {program}")
            for row in harness.loads(self.finish(self.start(command, env=self.env), 20)):
                now = [int(row.get(psn, 0)) for psn in ("sq_psn", "rq_psn")]
                first = seen.setdefault(row["qpn"], now)
                if any((psn - begin) % 2**24 >= 100 for psn, begin in zip(now, first)):
                    moving.add(row["qpn"])
        self.assertTrue(moving - self.busy, "\n".join(map(str, programs)))
        self.busy |= moving


class Polling(Case):
    def test_ib_write_bw(self):
        pair = self.busy_pair("ib_write_bw", "-D", "600")
        self.kill_daemon()
        self.assert_ends(pair[1])

    def test_ib_send_bw(self):
        pair = self.busy_pair("ib_send_bw", "-D", "600")
        self.kill_daemon()
        self.assert_ends(*pair)

    def test_pingpongs(self):
        for kind in ("rc", "uc", "ud", "srq"):
            with self.subTest(kind=kind):
                if self.daemon is None:
                    self.daemon = self.start_daemon()
                pair = self.busy_pair(f"ibv_{kind}_pingpong", "-g", "1", "-n", "100000000")
                self.kill_daemon()
                self.assert_ends(*pair)


class Sleeping(Case):
    def test_ib_send_bw_on_events(self):
        pair = self.busy_pair("ib_send_bw", "-e", "-n", "50000000")
        self.kill_daemon()
        self.assert_ends(*pair)

    def test_pingpong_on_events(self):
        pair = self.busy_pair("ibv_rc_pingpong", "-e", "-g", "1", "-n", "100000000")
        self.kill_daemon()
        self.assert_ends(*pair)

    def test_one_pingpong_waits_for_the_other(self):
        """Nothing is on its way: only the receives that both have posted."""
        pair = self.busy_pair("ibv_rc_pingpong", "-e", "-g", "1", "-n", "100000000")
        os.kill(pair[1].process.pid, signal.SIGSTOP)
        self.kill_daemon()
        self.assert_ends(pair[0])


class Stopped(Case):
    """`systemctl restart` and `stop` send SIGTERM."""

    def test_each_program_ends(self):
        polling = self.busy_pair("ibv_rc_pingpong", "-g", "1", "-n", "100000000")
        sleeping = self.busy_pair("ib_send_bw", "-e", "-n", "50000000")
        listening = self.serve(["ucmatose"])
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.wait(20), 0, str(self.daemon))
        self.daemon = None
        self.assert_ends(*polling, *sleeping, listening)


class Connections(Case):
    def test_rping(self):
        server = self.serve(["rping", "-s", "-a", SERVER])
        client = self.start([verbs.RUN, "rping", "-c", "-a", SERVER], env={**self.env, **preload.ENVIRONMENT})
        self.wait_until_busy(server, client)
        self.kill_daemon()
        self.assert_ends(server, client)

    def test_ucmatose_listens(self):
        server = self.serve(["ucmatose"])
        self.kill_daemon()
        self.assert_ends(server)


class Bereaved(Case):
    """A program of ours, which checks each call."""

    def bereaved(self, *args):
        program = harness.BUILD / "tests" / "system" / "clients" / "client_bereaved"
        if not program.exists():
            self.skipTest("client_bereaved is not built; it needs the development files of librdmacm")
        return self.start([verbs.RUN, program, *args], env=self.env)

    def test_each_descriptor_tells_it(self):
        programs = []
        for mode in ("channel", "async", "cm"):
            for how in ("sleep", "poll", "epoll"):
                programs.append(self.bereaved(mode, how))
                programs[-1].wait_for("ready", 20)
        self.kill_daemon()
        self.assert_ends(*programs)
        for program in programs:
            self.assertEqual(program.process.returncode, 0, str(program))

    def test_posted_work_is_flushed_and_calls_fail(self):
        self.finish(self.bereaved("work", self.daemon.process.pid), 30)
        self.daemon = None

    def test_a_shared_receive_whose_message_is_half_there_is_flushed(self):
        self.finish(self.bereaved("half", self.daemon.process.pid), 30)
        self.daemon = None

    def test_it_goes_on_with_the_next_daemon(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                program = self.bereaved("reopen")
                program.wait_for("ready", 20)
                self.daemon.process.send_signal(how)
                self.daemon.wait(20)
                self.daemon = self.start_daemon()
                self.finish(program, 40)

    def test_signals_end_waits_as_on_linux(self):
        self.finish(self.bereaved("signals"), 30)


if __name__ == "__main__":
    harness.main()
