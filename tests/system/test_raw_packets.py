#!/usr/bin/env python3
"""Raw packet queue pairs: who may have them, and what passes between the two devices of a daemon."""

import contextlib
import ctypes
import errno
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import unittest

import harness
import verbs
import speaker
from speaker import CREATE_CQ, CREATE_PD, CREATE_QP, Speaker, user

UROCE = harness.BUILD / "apps" / "uroce" / "uroce"
SNIFFING_CLIENT = harness.BUILD / "tests" / "system" / "clients" / "client_sniffer"
ALICE, BOB = 1001, 1002
RAW_PACKET = 8
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
ATTEMPTS = int(os.environ.get("UROCE_ATTEMPTS", "3"))  # of each attack
CREATE_FLOW = 34
NORMAL, ALL_DEFAULT, SNIFFER = 0, 1, 3
NO_FIELDS = bytes(2 * (6 + 6 + 2 + 2 + 16 + 16 + 4 + 4 + 2 + 2))


def unshare(flags):
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


class Case(verbs.Case):
    def start_daemon(self):
        self.directory.chmod(0o755)
        return super().start_daemon()

    def speaker(self, uid):
        with user(uid):
            one = Speaker(self.socket)
        self.addCleanup(one.socket.close)
        return one

    def create(self, one):
        """A raw packet queue pair: error, text and its handle."""
        pd, cq = one.handle(CREATE_PD), one.handle(CREATE_CQ, speaker.cq(16))
        error, words, reply = one.call(CREATE_QP, speaker.qp(pd, cq, RAW_PACKET))
        return error, words, struct.unpack_from("<I", reply)[0] if error == 0 else 0

    def macs(self):
        """Those of uroce0 and uroce1."""
        found = re.findall(r"([0-9a-f]{2}(?::[0-9a-f]{2}){5})", self.finish(
            self.start([UROCE, "devices", "--socket", self.socket]), 20))
        self.assertEqual(len(found), 2, found)
        return found

    def rule(self, one, qp, kind=ALL_DEFAULT):
        return self.spread(one, [qp], kind=kind)

    def spread(self, one, qps, fields=0, kind=ALL_DEFAULT):
        """A rule that spreads frames over queue pairs."""
        table = struct.pack(f"<I{len(qps)}I", len(qps), *qps)
        return one.call(CREATE_FLOW, table + struct.pack("<BHI", kind, 0, 0) + NO_FIELDS + struct.pack("<II", 0, fields) + bytes(40))


@unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
class Rights(Case):
    def test_of_an_ordinary_user(self):
        error, words, _ = self.create(self.speaker(ALICE))
        self.assertEqual(error, errno.EPERM, words)
        self.assertIn("CAP_NET_RAW", words)
        self.assertIn("raw_packets", words)

    def test_of_root(self):
        one = self.speaker(0)
        error, words, qp = self.create(one)
        self.assertEqual(error, 0, words)
        for kind in (NORMAL, ALL_DEFAULT, SNIFFER):
            self.assertEqual(self.rule(one, qp, kind)[0], 0)
        self.assertEqual(self.rule(one, qp, 4)[0], errno.EINVAL)
        self.assertEqual(self.rule(one, qp + 1)[0], errno.EINVAL)

    def test_tables_of_receive_side_scaling(self):
        one, other = self.speaker(0), self.speaker(0)
        first, second = self.create(one)[2], self.create(one)[2]
        theirs = [self.create(other)[2] for _ in range(3)][-1]
        self.assertEqual(self.spread(one, [first, second] * 128, fields=0xff)[0], 0)
        for table, fields, said in (([], 0, "0 queue pairs"), ([first] * 3, 0, "3 queue pairs"), ([first] * 512, 0, "512"),
                                    ([first, theirs], 0, str(theirs)), ([first, second], 0x100, "0x100")):
            error, words, _ = self.spread(one, table, fields)
            self.assertEqual(error, errno.EINVAL, words)
            self.assertIn(said, words)

    def test_rules_have_a_bound(self):
        one = self.speaker(0)
        qp = self.create(one)[2]
        made = 0
        while (answer := self.rule(one, qp))[0] == 0:
            made += 1
        self.assertEqual((made, answer[0]), (1024, errno.ENOMEM), answer[1])


@unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
class Proof(Case):
    """A program proves CAP_NET_RAW by a packet socket, and by nothing that it may do later."""

    def become_set_uid(self, program):
        """Alice's process connects, and is a set-uid program before the daemon accepts; this process has the connection."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(True)
        child = os.fork()
        if child == 0:
            os.setresuid(ALICE, ALICE, ALICE)
            connection.connect(str(self.socket))
            os.execl(program, program, "60")
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        limit = harness.time.monotonic() + 20
        while "Uid:\t1001\t0\t" not in pathlib.Path(f"/proc/{child}/status").read_text():
            self.assertLess(harness.time.monotonic(), limit)
        return connection

    def test_a_process_that_becomes_a_set_uid_program(self):
        """The daemon is stopped in place of a flood of connections, which delays it as well."""
        program = self.directory / "sleep"
        shutil.copy("/bin/sleep", program)
        program.chmod(0o4755)
        for _ in range(ATTEMPTS):
            self.daemon.process.send_signal(signal.SIGSTOP)
            connection = self.become_set_uid(program)
            self.daemon.process.send_signal(signal.SIGCONT)
            one = Speaker.of(connection)
            error, words, _ = self.create(one)
            connection.close()
            self.assertEqual(error, errno.EPERM, words)
            self.assertIn("it passed none", words)

    def from_process(self, prepare):
        """Connects from a process that did `prepare`, and has a packet socket: both come here."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                prepare()
                packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                if os.geteuid() == 0:
                    os.setresuid(ALICE, ALICE, ALICE)
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                connection.connect(str(self.socket))
                socket.send_fds(there, [b"x"], [connection.fileno(), packets.fileno()])
                signal.pause()
            os._exit(1)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        there.close()
        fds = socket.recv_fds(here, 1, 2)[1]
        here.close()
        self.assertEqual(len(fds), 2)
        one = Speaker.of(socket.socket(fileno=fds[0]))
        self.addCleanup(one.socket.close)
        self.addCleanup(os.close, fds[1])
        return one, fds[1]

    def test_of_namespaces_that_everybody_makes(self):
        def contained():
            os.setresuid(ALICE, ALICE, ALICE)
            unshare(CLONE_NEWUSER | CLONE_NEWNET)
        try:
            self.finish(self.start(["setpriv", f"--reuid={ALICE}", "--clear-groups", "unshare", "--user", "--net", "true"]), 20)
        except AssertionError:
            self.skipTest("this machine allows no user namespace")
        one, packets = self.from_process(contained)
        for speaking in (one, self.speaker(ALICE)):
            for _ in range(ATTEMPTS):
                error, words, _ = speaking.call(speaker.PROVE_RAW_PACKETS, fds=[packets])
                self.assertEqual(error, errno.EPERM, words)
            error, words, _ = self.create(speaking)
            self.assertEqual(error, errno.EPERM, words)
            self.assertIn("network namespace", words)

    def test_of_the_daemons_namespaces(self):
        """The second is a container without a user namespace of its own."""
        for prepare in (lambda: None, lambda: unshare(CLONE_NEWNET)):
            one, packets = self.from_process(prepare)
            self.assertEqual(self.create(one)[0], errno.EPERM, "before its proof")
            for fds in ([], [packets, packets]):
                self.assertEqual(one.call(speaker.PROVE_RAW_PACKETS, fds=fds)[0], errno.EINVAL)
            error, words, _ = one.call(speaker.PROVE_RAW_PACKETS, fds=[packets])
            self.assertEqual(error, 0, words)
            error, words, qp = self.create(one)
            self.assertEqual(error, 0, words)
            self.assertEqual(self.rule(one, qp)[0], 0)
            self.assertEqual(self.rule(one, qp, SNIFFER)[0], errno.EPERM)

    def test_the_library_passes_it(self):
        self.need("raw_ethernet_fs_rate")
        first, second = self.macs()
        program = self.under("setpriv", f"--reuid={ALICE}", "--clear-groups", "--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw",
                             "raw_ethernet_fs_rate", "-d", "uroce0", "-B", first, "-E", second, "-n", "50", "-F", "--server")
        self.assertRegex(self.finish(program, 60), r"#flows")


@unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
class Allowed(Case):
    """The settings let one user have them, and nobody else."""

    def start_daemon(self):
        self.directory.chmod(0o755)
        settings = self.directory / "uroced.toml"
        settings.write_text(f'[[user]]\nname = "{ALICE}"\nraw_packets = true\nmax_flow = 5\n')
        daemon = self.start([verbs.UROCED, *harness.eal("--vdev=net_null0"), "--", "--config", settings,
                             "--socket", self.socket])
        daemon.wait_for("serving uroce0", 30)
        return daemon

    def test_of_that_user(self):
        one = self.speaker(ALICE)
        error, words, qp = self.create(one)
        self.assertEqual(error, 0, words)
        error, words, _ = self.rule(one, qp, SNIFFER)
        self.assertEqual(error, errno.EPERM, words)
        self.assertIn("sniffer", words)
        for _ in range(5):
            self.assertEqual(self.rule(one, qp)[0], 0)
        error, words, _ = self.rule(one, qp)
        self.assertEqual(error, errno.ENOMEM, words)
        self.assertIn("max_flow", words)
        self.assertEqual(self.create(self.speaker(BOB))[0], errno.EPERM)


@unittest.skipUnless(os.geteuid() == 0, "only root may sniff")
class Sniffer(Case):
    MESSAGES = 100

    def sniff(self):
        """It sees the messages that its device receives and those that another program sends from it."""
        self.need("ibv_rc_pingpong")
        sniffer = self.under(SNIFFING_CLIENT, "uroce0", self.macs()[0], self.MESSAGES)
        sniffer.wait_for("ready", 20)
        self.pair(["ibv_rc_pingpong", "-g", "0", "-n", self.MESSAGES, "-s", "1000"])
        self.assertIn(f"sent {self.MESSAGES} received {self.MESSAGES}", self.finish(sniffer, 40))

    def test_of_all_that_passes(self):
        self.sniff()


@unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "two engines need two CPUs")
class SnifferBesideTwoEngines(Sniffer):
    """The sniffer's engine may be another one than that of the messages, and engines sleep."""
    daemon_args = ("--set", "engines.lcores=0-1", "--idle", "sleep")


@unittest.skipUnless(os.geteuid() == 0, "raw packets need a privilege")
class Perftest(Case):
    """Debian's raw_ethernet programs, between the devices."""

    UDP = ("-J", "10.117.0.2", "-j", "10.117.0.1", "-K", "5678", "-k", "1234")

    def both(self, program, *options, iterations=1000):
        first, second = self.macs()
        sides = []
        for device, own, peer, side in (("uroce0", first, second, "--server"), ("uroce1", second, first, "--client")):
            sides.append(self.under(program, side, "-d", device, "-B", own, "-E", peer, "-n", iterations, "-F", *options))
            if side == "--server":
                self.wait_for_rule()
        outputs = [self.finish(one, 60) for one in reversed(sides)]
        for output in outputs:
            self.assertRegex(output, r"#bytes")
        return outputs

    def wait_for_rule(self):
        """The server has made its rule, and posts its receives before that."""
        limit = harness.time.monotonic() + 20 * harness.SLOW
        while harness.time.monotonic() < limit:
            rows = harness.loads(self.finish(self.start([UROCE, "show", "user", "--json", "--socket", self.socket]), 20))
            if any(row["budgets"]["flow"]["used"] for row in rows):
                return
            harness.time.sleep(0.05)
        self.fail("no rule came")

    def test_bandwidth(self):
        """The server waits for each frame, and a frame that finds no receive is lost: all receives are posted at first."""
        self.both("raw_ethernet_bw", "-s", "1024", "-r", "1024")
        self.both("raw_ethernet_bw", "-s", "512", "-r", "1024", *self.UDP)

    def test_rate_of_rules(self):
        first, second = self.macs()
        output = self.finish(self.under("raw_ethernet_fs_rate", "-d", "uroce0", "-B", first, "-E", second, "-n", "500", "-F",
                                        "--server", *self.UDP), 60)
        self.assertRegex(output, r"#flows")

    def test_of_an_ordinary_user(self):
        program = self.under("setpriv", f"--reuid={ALICE}", "--clear-groups", "raw_ethernet_bw", "--server", "-d", "uroce0",
                             "-B", "02:00:00:00:00:01", "-E", "02:00:00:00:00:02", "-F")
        self.assertNotEqual(program.wait(30), 0)
        self.assertIn("create QP", program.output)

    def test_latency(self):
        self.both("raw_ethernet_lat", "-s", "64")
        self.both("raw_ethernet_lat", "-s", "1500", "-J", "10.117.0.2", "-j", "10.117.0.1")

    def test_burst_latency_is_refused_by_its_program(self):
        """perftest 4.5 refuses its own choice of a rate limiter, before it opens a device."""
        alone = self.start([verbs.RUN, "--explain", "raw_ethernet_burst_lat", "--server", "-d", "uroce0", "-B",
                            "02:00:00:00:00:01", "-E", "02:00:00:00:00:02", "-F"], env=self.env)
        self.assertNotEqual(alone.wait(30), 0)
        self.assertIn("SW Rate limiter cann't be executed on non-BW", alone.output)
        self.assertIn("refused no call", alone.output)


if __name__ == "__main__":
    harness.main()
