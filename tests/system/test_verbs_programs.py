#!/usr/bin/env python3
"""Debian's ibverbs-utils and perftest, unchanged, under uroce-run."""

import os
import pathlib
import re
import signal
import socket
import time
import unittest

import harness
import verbs

SHRINK_POSTED = harness.BUILD / "tests" / "system" / "clients" / "client_shrink_posted"
REACH = harness.BUILD / "tests" / "system" / "clients" / "client_reach"


class Tools(verbs.Case):
    def test_ibv_devices(self):
        output = self.finish(self.under("ibv_devices"), 20)
        self.assertRegex(output, r"uroce0\s+[0-9a-f]{16}")
        self.assertIn("uroce1", output)

    def test_ibv_devinfo(self):
        output = self.finish(self.under("ibv_devinfo", "-v"), 20)
        self.assertEqual(output.count("PORT_ACTIVE (4)"), 2, output)
        self.assertIn("link_layer:\t\tEthernet", output)
        self.assertIn("::ffff:10.117.0.1, RoCE v2", output)

    def test_no_daemon(self):
        """uroce-run brings up one of its own, says so, and takes it down."""
        self.daemon.process.terminate()
        self.finish(self.daemon, 30)
        self.daemon = None
        output = self.finish(self.under("ibv_devices"), 40)
        self.assertIn("uroce1", output)
        self.assertIn("uroced --demo", output)

    def test_a_daemon_that_stands_still(self):
        """^C ends the wait for it."""
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            run = self.under("ibv_devices")
            self.wait_for_socket(run)
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(self.finish(run, 20, -signal.SIGINT), "")
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)

    def wait_for_socket(self, program):
        """Returns once the program has a socket, and has begun to wait or is about to."""
        limit = time.monotonic() + 20 * harness.SLOW
        fds = pathlib.Path(f"/proc/{program.process.pid}/fd")
        while not any(path.is_socket() for path in fds.iterdir()):
            self.assertLess(time.monotonic(), limit, f"no socket: {program}")
            time.sleep(0.01)

    def test_another_program_listens(self):
        """uroce-run asks it once, and says the reason once."""
        path = self.directory / "other.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            run = self.start([verbs.RUN, "--socket", path, "ibv_devices"])
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.send(b"\xff" * 64)
                output = self.finish(run, 20, 1)
        self.assertEqual(output.count("a reply has no valid header"), 1, output)


class StoppedDaemon(verbs.Case):
    def test_a_shrunk_queue_has_room_for_what_was_posted(self):
        """The daemon stands still meanwhile, as on a busy machine."""
        program = self.under(SHRINK_POSTED)
        program.wait_for("ready", 20)
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            program.process.send_signal(signal.SIGUSR1)
            program.wait_for("posted", 20)
            time.sleep(0.2)
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        self.finish(program, 20)


class Explain(verbs.Case):
    def test_a_forgotten_gid_is_named(self):
        """The commonest mistake: RoCE needs a GID index, which programs made for InfiniBand leave out."""
        port = str(harness.free_port())
        server = self.start([verbs.RUN, "--explain", "ibv_rc_pingpong", "-d", "uroce0", "-p", port], env={**self.env, "UROCE_VERBOSE": "1"})
        verbs.wait_for_listener(server, int(port))
        client = self.under("ibv_rc_pingpong", "-d", "uroce1", "-p", port, "127.0.0.1")
        self.assertNotEqual(client.wait(30), 0)
        self.assertNotEqual(server.wait(30), 0)
        reason = r"the address has no GID .* -g 0, for perftest -x 0, for qperf -cm1"
        self.assertRegex(server.output, rf"1 x  ibv_rc_pingpong: {reason}")
        self.assertRegex(server.output, rf"(?m)^uroce: {reason}$")

    def test_equal_refusals_are_counted(self):
        script = ("echo 'p: 1 of 2 in use' >> $UROCE_EXPLAIN; echo 'p: 2 of 2 in use' >> $UROCE_EXPLAIN;"
                  "echo 'p: other' >> $UROCE_EXPLAIN; exit 3")
        program = self.start([verbs.RUN, "--explain", "sh", "-c", script], env=self.env)
        self.assertEqual(program.wait(30), 3)
        self.assertRegex(program.output, r"(?s)\n  2 x  p: 1 of 2 in use\n  1 x  p: other\n")

    def test_probes_are_listed_apart(self):
        script = ("echo 'p: refused' >> $UROCE_EXPLAIN; echo '?p: tried 2' >> $UROCE_EXPLAIN;"
                  "echo '?p: tried 4' >> $UROCE_EXPLAIN")
        output = self.finish(self.start([verbs.RUN, "--explain", "sh", "-c", script], env=self.env), 30)
        self.assertRegex(output, r"(?s)refused these calls\.\n  1 x  p: refused\n.* tried out .*:\n  2 x  p: tried 2\n")

    def test_none(self):
        output = self.finish(self.start([verbs.RUN, "--explain", "ibv_devices"], env=self.env), 30)
        self.assertIn("refused no call", output)


class Pingpong(verbs.SharedCase):
    def run_both(self, program):
        for events in ([], ["-e"]):
            with self.subTest(events=events):
                server, client = self.pair([program, "-g", "0", "-n", "100", *events])
                for output in (server, client):
                    self.assertRegex(output, r"\d+ iters in")

    def test_rc(self):
        self.run_both("ibv_rc_pingpong")

    def test_uc(self):
        self.run_both("ibv_uc_pingpong")

    def test_ud(self):
        self.run_both("ibv_ud_pingpong")

    def test_srq(self):
        self.run_both("ibv_srq_pingpong")

    def test_xrc(self):
        for events in ([], ["-e"]):
            with self.subTest(events=events):
                server, client = self.pair(["ibv_xsrq_pingpong", "-g", "0", "-n", "100", *events])
                for output in (server, client):
                    self.assertIn("success", output)

    def test_rc_validates_its_bytes(self):
        self.pair(["ibv_rc_pingpong", "-g", "0", "-n", "50", "-c", "-s", "20000"])

    def test_one_device_with_itself(self):
        self.pair(["ibv_rc_pingpong", "-g", "0", "-n", "50"], devices=("uroce0", "uroce0"))


class Perftest(verbs.SharedCase):
    BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
    LATENCY = ("ib_write_lat", "ib_read_lat", "ib_send_lat")

    def run_all(self, programs, *options, iterations=100, **kw):
        for program in programs:
            with self.subTest(program=program, options=options):
                _, client = self.pair([program, "-n", iterations, *options], **kw)
                self.assertRegex(client, r"#bytes +#iterations")

    def test_bandwidth(self):
        self.run_all((*self.BANDWIDTH, "ib_atomic_bw"))

    def test_latency(self):
        self.run_all((*self.LATENCY, "ib_atomic_lat"))

    def test_all_sizes(self):
        self.run_all(self.BANDWIDTH, "-a", iterations=20)
        self.run_all(("ib_write_lat", "ib_send_lat"), "-a", iterations=20)

    def test_both_directions(self):
        self.run_all((*self.BANDWIDTH, "ib_atomic_bw"), "-b", "-s", "8")

    def test_eight_queue_pairs(self):
        self.run_all((*self.BANDWIDTH, "ib_atomic_bw"), "-q", "8", "-s", "8")

    def test_depth(self):
        self.run_all(self.BANDWIDTH, "-t", "16")

    def test_inline(self):
        self.run_all(("ib_write_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"), "-I", "200", "-s", "128")

    def test_unreliable_connection(self):
        self.run_all(("ib_write_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"), "-c", "UC")

    def test_extended_reliable_connection(self):
        self.run_all((*self.BANDWIDTH, *self.LATENCY, "ib_atomic_bw"), "-c", "XRC")
        self.run_all(("ib_send_bw",), "-c", "XRC", "-q", "4", "-b")

    def test_datagrams(self):
        self.run_all(("ib_send_bw", "ib_send_lat"), "-c", "UD", "-s", "1024")

    def test_events(self):
        self.run_all(("ib_send_bw", "ib_send_lat", "ib_read_bw"), "-e")

    def test_shared_receive_queue(self):
        self.run_all(("ib_send_bw",), "--use-srq", "-q", "4")
        self.run_all(("ib_send_lat",), "--use-srq")

    def test_report_in_gigabits(self):
        self.run_all(self.BANDWIDTH, "--report_gbits", "-s", "65536")


class ReachCase(verbs.Case):
    """All that ibv_query_device() promises is there, to the last object."""

    def start_daemon(self):
        self.directory.chmod(0o755)
        return super().start_daemon()

    def reach(self, *command):
        output = self.finish(self.under(*command, REACH), 240)
        found = {kind: (int(promised), int(got)) for kind, promised, got
                 in re.findall(r"^(\w+) promised (\d+) got (\d+)$", output, re.M)}
        self.assertEqual(set(found), {"pd", "cq", "srq", "mr", "empty_mr", "qp"}, output)
        self.assertNotRegex(output, "failed|cannot")
        for kind, (promised, got) in found.items():
            self.assertEqual(got, promised, f"{kind}\n{output}")
            self.assertGreater(promised, 500, kind)


class Reach(ReachCase):
    def test_of_an_ordinary_user(self):
        if os.geteuid() == 0:
            self.reach("setpriv", "--reuid=1001", "--clear-groups")
        else:
            self.reach()


@unittest.skipUnless(os.geteuid() == 0, "only root has what is kept for root")
class ReachOfRoot(ReachCase):
    """Root may have all of a device. It is a small one, because 65,536 regions take half a minute."""
    daemon_args = ("--set", "engines.max_mr=8192", "--set", "engines.max_qp=4096")

    def test_of_root(self):
        self.reach()


if __name__ == "__main__":
    harness.main()
