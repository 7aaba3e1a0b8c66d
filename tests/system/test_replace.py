#!/usr/bin/env python3
"""A planned restart: `uroced --replace` takes over from a daemon that runs."""

import contextlib
import os
import re
import signal
import struct
import threading
import time
import unittest

import harness
import replacing
import veth
from harness import eal
from replacing import BELONGINGS, ESTATE, FAILED, GO, READY, TAKE_OVER, Successor
from speaker import LIST_ENGINES, Speaker
from veth import by


class Newcomers(threading.Thread):
    """Programs that come all the time: each connects, says hello and asks something."""

    def __init__(self, path):
        super().__init__()
        self.path, self.over, self.served, self.cut, self.failures = path, threading.Event(), 0, 0, []

    def run(self):
        while not self.over.is_set():
            try:
                one = Speaker.__new__(Speaker)
                one.connect(self.path)
            except OSError as e:
                self.failures.append(f"connect: {e}")
                continue
            one.socket.settimeout(20 * harness.SLOW)
            with one:
                answers = (one.hello(), one.call(LIST_ENGINES))
            if None in answers:
                self.cut += 1
            elif any(answer[0] for answer in answers):
                self.failures.append(str(answers))
            else:
                self.served += 1

    @classmethod
    @contextlib.contextmanager
    def at(cls, path):
        some = cls(path)
        some.start()
        try:
            yield some
        finally:
            some.over.set()
            some.join()


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Replace(replacing.Case):
    def goes_on(self, daemon):
        """It serves, its engines turn, and its port sends and receives."""
        far = self.serve(self.names[1])
        self.finish_both(*self.traffic("write_bw", self.names, by(daemon), by(far), "-R", "--verify", "-n", "50"))
        far.process.send_signal(signal.SIGTERM)
        self.finish(far, 20)
        self.assertIsNone(daemon.process.poll(), str(daemon))

    def test_takes_over(self):
        far = self.serve(self.names[1])
        daemon = self.serve(self.names[0])
        inode = os.stat(daemon.socket).st_ino
        with Newcomers.at(daemon.socket) as some:
            for _ in range(3):
                before = some.served
                daemon = self.replace(daemon)
                while some.is_alive() and some.served == before:
                    time.sleep(0.01)
                self.finish_both(*self.traffic("write_bw", self.names, by(daemon), by(far), "-R", "--verify", "-n", "50"))
        self.assertEqual(some.failures, [])
        self.assertLessEqual(some.cut, 3, "one connection may end at each cut")
        self.assertEqual(os.stat(daemon.socket).st_ino, inode)
        self.assertEqual(int(daemon.socket.with_name(daemon.socket.name + ".lock").read_text().split()[0]), daemon.process.pid)
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 20)
        self.assertFalse(daemon.socket.exists())

    def test_several_engines(self):
        daemon = self.serve(self.names[0], eal_args=veth.engines(3))
        daemon = self.replace(daemon, eal_args=veth.engines(3))
        self.goes_on(daemon)

    def test_on_a_udp_socket(self):
        port = ["--vdev", "net_uroce_udp0,iface=d0"]
        daemon = self.serve(self.names[0], interface=None, eal_args=eal(*port))
        after = self.start([veth.UROCED, *eal(*port), "--", "--socket", daemon.socket, "--user", "", "--replace"], self.names[0])
        after.space, after.socket = daemon.space, daemon.socket
        after.wait_for("serving uroce0", 20)
        self.finish(daemon, 20)
        self.goes_on(after)

    def test_addresses_of_its_own(self):
        daemon = self.serve(self.names[0], "--address", "192.0.2.11/24")
        daemon = self.replace(daemon, "--address", "192.0.2.11/24")
        self.goes_on(daemon)
        stranger = self.launch(self.names[0], "--address", "192.0.2.11/24")
        self.assertNotEqual(stranger.wait(20), 0)
        self.assertIn(f"is in use by another program of uroce (process {daemon.process.pid})", stranger.output)

    def test_it_serves_metrics_at_the_same_address(self):
        listen = ("--set", f"metrics.listen=127.0.0.1:{harness.free_port()}")
        daemon = self.serve(self.names[0], *listen)
        daemon = self.replace(daemon, *listen)
        self.assertIn("metrics are at", daemon.output)

    def refused(self, successor, sentence, code):
        self.assertEqual(successor.wait(30), code, str(successor))
        self.assertRegex(successor.output, sentence)

    def test_refusals_change_nothing(self):
        daemon = self.serve(self.names[0])
        self.directory.chmod(0o755)
        (self.directory / "run").mkdir(mode=0o777)
        (self.directory / "run").chmod(0o777)
        nobody = self.launch_successor(daemon, before=("env", f"XDG_RUNTIME_DIR={self.directory}/run", "setpriv", "--reuid", "65534",
                                                       "--clear-groups"))
        self.refused(nobody, "taking over is for root and the daemon's own user, not for user 65534", 1)
        self.refused(self.launch_successor(daemon, eal_args=veth.engines(2)),
                     "the number of engines is 1 in the running daemon and 2 in its successor; start the successor with the same", 2)
        self.refused(self.launch_successor(daemon, "--set", "engines.max_qp=64"), "engines.max_qp, rounded .* is 16384 .* and 64", 2)
        self.refused(self.launch_successor(daemon, "--port-mtu", "1400"), "the MTU is 1500 in the running daemon and 1400", 2)
        self.refused(self.launch_successor(daemon, interface="c0"), "the interface is d0 .* and c0", 2)
        self.assertEqual(veth.link_of(self.names[0])["mtu"], 1500)
        self.goes_on(daemon)

    def test_there_is_no_daemon(self):
        daemon = self.serve(self.names[0])
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 20)
        self.refused(self.launch_successor(daemon), "no uroced runs on this socket, so there is none to replace", 1)

    def test_a_successor_that_goes(self):
        """At any step before it is told to go, and beside another one."""
        daemon = self.serve(self.names[0])
        for steps in ((), (READY,)):
            with Successor(daemon.socket, device=None) as first:
                self.assertEqual(first.take_over(self.mac())[0], 0)
                self.assertEqual(first.hear()[0], BELONGINGS)
                self.refused(self.launch_successor(daemon), rf"process {os.getpid()} is taking over from this daemon already", 1)
                for step in steps:
                    first.say(step)
                    self.assertEqual(first.hear()[0], ESTATE)
            daemon.wait_for("this daemon goes on", 20)
            self.goes_on(daemon)
        self.assertEqual(daemon.output.count("this daemon goes on"), 2)
        self.goes_on(self.replace(daemon))

    def test_an_older_successor(self):
        """Snapshots of its version have no place for WRITEs as Onlies. Those under way end before the cut, and others begin after it."""
        daemon, far = self.serve(self.names[0]), self.serve(self.names[1])
        pair = self.traffic("write_bw", self.names, by(daemon), by(far), *veth.PATIENT, "-D", "600", "--verify", "-s", "65536")
        for one in pair:
            one.wait_for("#bytes", 60)
        for number in range(3):
            with Successor(daemon.socket, device=None) as old:
                self.assertEqual(old.take_over(self.mac())[0], 0)
                self.assertEqual(old.hear()[0], BELONGINGS)
                old.say(READY)
                rows = old.rows()
                self.assertEqual({struct.unpack_from("<I", rows, at.end())[0] for at in re.finditer(b"UQPS", rows)}, {8})
            limit = time.monotonic() + 20 * harness.SLOW
            while daemon.output.count("this daemon goes on") == number:
                self.assertLess(time.monotonic(), limit, daemon.output)
                time.sleep(0.01)
            self.assertEqual([one.process.poll() for one in pair], [None, None], pair)
        daemon = self.replace(daemon)
        self.assertEqual([one.process.poll() for one in pair], [None, None], pair)

    def test_a_successor_that_talks_nonsense(self):
        daemon = self.serve(self.names[0])
        mac = self.mac()
        with Successor(daemon.socket, device=None) as one:
            self.assertIn("does not decode", re.sub("do not", "does not", one.call(TAKE_OVER, b"\xff" * 9)[1]))
        for packet in (b"", b"\x02", struct.pack("<HiI", GO, 0, 0), struct.pack("<HiI", READY, 0, 9), struct.pack("<HiI", 99, 0, 0)):
            with Successor(daemon.socket, device=None) as one:
                self.assertEqual(one.take_over(mac)[0], 0)
                self.assertEqual(one.hear()[0], BELONGINGS)
                one.socket.send(packet or b"\0")
                step, error, words, _ = one.hear()
                self.assertEqual(step, FAILED, words)
                self.assertNotEqual(error, 0)
                self.assertIsNone(one.hear())
        self.goes_on(daemon)

    def test_a_killed_one(self):
        """While it starts, at times of its own."""
        daemon = self.serve(self.names[0])
        for delay in (0.05, 0.1, 0.2, 0.3, 0.5):
            one = self.launch_successor(daemon)
            time.sleep(delay)
            one.process.send_signal(signal.SIGKILL)
            one.process.wait(20)
            if f"process {one.process.pid}, uroced" not in daemon.output:
                continue
            limit = time.monotonic() + 20 * harness.SLOW
            while time.monotonic() < limit and not re.search(rf"process {one.process.pid}(: frozen| does not take over)", daemon.output):
                time.sleep(0.01)
            if re.search(replacing.HANDED_OVER.format(one.process.pid), daemon.output):
                self.finish(daemon, 20)
                return  # it was late, and had taken over
        self.goes_on(daemon)


if __name__ == "__main__":
    harness.main()
