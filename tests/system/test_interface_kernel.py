#!/usr/bin/env python3
"""The kernel around ports on its interfaces (net_uroce_kif): an interface that comes back, buffers, drops on the way out, and kernels
without super-frames."""

import signal
import subprocess
import time
import unittest

import harness
import veth
from harness import IDLE, eal
from veth import renew


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class ComesBack(veth.DaemonCase):
    """An interface that goes and comes back under daemons, whatever rights they have."""

    def test_one_engine_without_rights_goes_on(self):
        names = self.spaces(1500)
        self.directory.chmod(0o777)
        sockets, _ = self.daemons(names, user="games")
        renew(names, pause=0.3)
        self.through(names, sockets)

    def test_several_engines_without_rights_say_that_the_port_is_down(self):
        names = self.spaces(1500)
        self.directory.chmod(0o777)
        sockets, daemons = self.daemons(names, 2, user="games")
        renew(names, pause=0.3)
        for socket_, daemon in zip(sockets, daemons):
            daemon.wait_for("the port is down until the program starts again", 20)
            shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
            self.assertFalse(harness.loads(self.finish(shown, 20))[0]["link_up"])

    def test_with_the_same_index_while_nobody_looks(self):
        for count in (1, 2):
            names = self.spaces(1500)
            sockets, daemons = self.daemons(names, count)
            for daemon in daemons:
                daemon.process.send_signal(signal.SIGSTOP)
            renew(names, same_index=True)
            for daemon in daemons:
                daemon.process.send_signal(signal.SIGCONT)
            self.through(names, sockets, "-q", "4")
            for daemon in daemons:
                daemon.kill()


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Buffers(veth.DaemonCase):
    def test_a_socket_holds_more_than_by_default(self):
        names = self.spaces(1500)
        self.daemons(names)
        sockets = self.finish(self.start(["ss", "--packet", "--memory", "--numeric"], names[0]), 20)
        # skmem: what waits, and the limit, for receiving and for sending.
        self.assertRegex(sockets, r"rb67108864,t\d+,tb1048576,")


# Frames to 10.117.0.3 meet a queue without room, as at a filter that drops them.
DROPS = """
tc qdisc add dev d0 root handle 1: htb default 1 &&
tc class add dev d0 parent 1: classid 1:1 htb rate 100gbit quantum 60000 &&
tc class add dev d0 parent 1: classid 1:2 htb rate 100gbit quantum 60000 &&
tc qdisc add dev d0 parent 1:2 pfifo limit 0 &&
tc filter add dev d0 parent 1: protocol ip u32 match ip dst 10.117.0.3 flowid 1:2
"""


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class DroppedOnTheWayOut(veth.DaemonCase):
    def shell(self, name, script):
        return subprocess.run(["ip", "netns", "exec", name, "sh", "-c", script], capture_output=True, text=True, timeout=30 * harness.SLOW, check=False)

    def test_a_destination_that_a_filter_drops_stops_no_other(self):
        names = self.spaces(1500)
        if (tried := self.shell(names[1], DROPS)).returncode:
            self.skipTest(f"this kernel has no HTB with u32 filters: {tried.stderr}")
        sockets, _ = self.daemons(names, addresses=(("10.117.0.2/24", "10.117.0.3/24"), ("10.117.0.1/24",)))
        common = ["--daemon", "-s", "65536"]
        ends = []
        for index, more in ((1, ["-D", "600", "-u", "22"]), (0, ["-n", "500", *harness.PATIENT])):
            args = [harness.PERF, "write_bw", "--", *common, *more, "-p", harness.free_port()]
            server = self.start([*args, "--socket", sockets[0], "-x", index], names[0])
            ends.append(self.start([*args, "--socket", sockets[1], "10.199.0.1"], names[1]))
            if index == 1:
                self.wait_for_counter(sockets[1], "kif_tx_dropped")
        self.finish(ends[1], 60)
        self.finish(server, 60)
        self.assertIsNone(ends[0].process.poll(), f"it is to lose frames all the time: {ends[0]}")

    def wait_for_counter(self, socket_, name):
        limit = time.monotonic() + 20 * harness.SLOW
        while self.counters(socket_).get(name, 0) == 0:
            self.assertLess(time.monotonic(), limit, f"{name} stays 0")
            time.sleep(0.05)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class WithoutSuperFrames(veth.DaemonCase):
    """The kernel refuses super-frames (clients/refuse_super_frames.cc)."""

    def refused(self, when):
        return {"LD_PRELOAD": str(harness.BUILD / "tests/system/clients/refuse_super_frames.so"), "UROCE_TEST_REFUSES": when}

    def writes(self, when):
        """Returns what a program with verified WRITEs says about its port."""
        names = self.spaces(1500)
        own = [*IDLE, *harness.PATIENT, "--verify", "--interface", "d0", "-s", "65536", "-n", "200", "-p", harness.free_port()]
        server = self.start([harness.PERF, "write_bw", *eal(), "--", *own], names[0])
        client = self.start([harness.PERF, "write_bw", *eal(), "--", *own, "10.199.0.1"], names[1], self.refused(when))
        said = self.finish(client, 60)
        self.finish(server, 60)
        return said

    def test_a_kernel_before_linux_6_2(self):
        said = self.writes("always")
        self.assertIn("single frames (this kernel has no UDP segmentation", said)
        self.assertNotIn("super-frames (UDP", said)

    def test_the_daemon_says_how_it_sends(self):
        names = self.spaces(1500)
        socket_ = self.directory / "s"
        for extra, env, expected in (("", None, "super-frames"), (",super_frames=no", None, "single frames (super_frames=no)"),
                                     ("", self.refused("always"), "single frames (kernel without UDP segmentation)")):
            daemon = self.start([harness.BUILD / "apps/uroced/uroced", *eal(f"--vdev=net_uroce_kif0,iface=d0{extra}"), "--", "--socket",
                                 socket_, "--user", ""], names[0], env)
            daemon.wait_for("serving", 20)
            shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
            self.assertEqual(harness.loads(self.finish(shown, 20))[0]["sending"], expected)
            daemon.process.terminate()
            self.finish(daemon, 30)

    def test_a_kernel_that_refuses_them_later(self):
        self.assertIn("the kernel refuses its super-frames", self.writes("later"))


if __name__ == "__main__":
    harness.main()
