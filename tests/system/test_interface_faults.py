#!/usr/bin/env python3
"""Ports on interfaces that the kernel keeps, where something is wrong: too little room, an MTU that shrinks, an interface that goes
away under traffic or cannot be used at all. Each time the user reads what happened and what to do."""

import pathlib
import re
import signal
import time
import unittest

import harness
import veth
from veth import alone, by

REFUSE = harness.SOURCE / "tests" / "system" / "refuse.py"
# Root that may open packet sockets, and whose sockets hold no more than others.
LIMITED = ("setpriv", "--bounding-set=-net_admin,-sys_admin", REFUSE, "buffer")
ROOM = int(pathlib.Path("/proc/sys/net/core/rmem_default").read_text())


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Overrun(veth.Case):
    """More frames wait than the kernel holds for a program without CAP_NET_ADMIN."""

    def stop_until_it_overruns(self, receiver, traffic):
        """Whether the kernel drops frames of the receiver's socket while that is stopped, now and then, and the traffic goes on."""
        while traffic.process.poll() is None:
            receiver.process.send_signal(signal.SIGSTOP)
            try:
                limit = time.monotonic() + 1
                while time.monotonic() < limit:
                    if self.drops(receiver.space):
                        return True
            finally:
                receiver.process.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        return False

    def drops(self, space):
        """Frames that packet sockets of a namespace had no room for."""
        sockets = self.finish(self.start(["ss", "--packet", "--memory", "--numeric"], space), 20)
        return sum(map(int, re.findall(r"skmem:\(.*?,d(\d+)\)", sockets)))

    def test_writes_to_an_engine_that_stands_still(self):
        self.overrun("write_bw", "server", 16)

    def test_reads_by_an_engine_that_stands_still(self):
        self.overrun("read_bw", "client", 4)

    def overrun(self, test, receives, pairs):
        """The program at the end that receives compares every byte: all that was acknowledged is there."""
        names = self.spaces(1500)
        daemons = dict(zip(("server", "client"), (self.serve(name, before=LIMITED) for name in names)))
        receiver = daemons[receives]

        def run(seconds):
            server, client = self.traffic(test, names, by(daemons["server"]), by(daemons["client"]), "--verify", "-q", pairs,
                                          "-s", "65536", "-D", seconds, "-u", "20")
            client.wait_for("remote address", 20)
            overran = self.stop_until_it_overruns(receiver, client)
            self.finish_both(server, client)
            self.assertRegex({"server": server, "client": client}[receives].output, r"every byte of \d+ messages is right")
            return overran
        self.while_it_lasts(run, (3, 20, 100))
        receiver.wait_for(f"interface d0: frames were lost (kif_rx_lost), because no more than {ROOM >> 10} KiB wait; raise "
                          "net.core.rmem_max (sysctl -w net.core.rmem_max=33554432), or give the program CAP_NET_ADMIN, and start it "
                          "again", 20)
        self.assertEqual(receiver.output.count("kif_rx_lost"), 1, "said once")
        self.assertGreater(self.counters_of(receiver)["kif_rx_lost"], 0)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Unusable(veth.Case):
    """Interfaces on which no port starts."""

    def setUp(self):
        super().setUp()
        self.names = self.spaces(1500)

    def refused(self, text, **kw):
        program = self.launch(self.names[0], **kw)
        self.assertNotEqual(program.wait(20), 0, str(program))
        self.assertIn(text, program.output)

    def set_mtu(self, mtu):
        for name in self.names:
            harness.ip("-n", name, "link", "set", "d0", "mtu", mtu)

    def test_an_mtu_below_the_least(self):
        self.set_mtu(339)
        self.refused("has an MTU of 339, but the smallest path MTU (256) needs 340; raise it")

    def test_the_least_mtu_and_the_largest_of_the_least_path_mtu(self):
        for mtu in (340, 575):
            self.set_mtu(mtu)
            with self.subTest(mtu=mtu):
                daemons = [self.serve(name) for name in self.names]
                for daemon in daemons:
                    self.assertIn(f"MTU {mtu}, path MTU 256;", daemon.output)
                self.finish_both(*self.traffic("write_bw", self.names, by(daemons[0]), by(daemons[1]), "--verify", "-s", "65536", "-n",
                                               "50"))
                for daemon in daemons:
                    daemon.kill()

    def test_no_such_interface(self):
        self.refused("interface nosuch0: No such device; name one that `ip link` lists", interface="nosuch0")

    def test_an_interface_without_ethernet_frames(self):
        made = 0
        for command in (("tuntap", "add", "x0", "mode", "tun"), ("link", "add", "x1", "type", "sit", "local", "192.0.2.1"),
                        ("link", "add", "x2", "type", "ipip", "local", "192.0.2.1")):
            try:
                harness.ip("-n", self.names[0], *command)
            except RuntimeError:  # the kernel lacks the module
                continue
            made += 1
            interface = command[2]
            with self.subTest(command):
                self.refused(f"interface {interface}: its frames are not Ethernet's; name one that `ip link` lists",
                             interface=interface)
        if not made:
            self.skipTest("the kernel makes no interface without Ethernet frames")

    def test_the_loopback_interface(self):
        daemon = self.serve(self.names[0], interface="lo")
        self.assertIn("lo is the loopback interface: it has no address for a device, and no peer; name another one that `ip link` "
                      "lists", daemon.output)

    def test_a_filter_that_the_kernel_refuses(self):
        self.refused("interface d0: cannot attach the filter of RoCE packets: Cannot allocate memory",
                     before=[REFUSE, "filter"])

    def test_without_the_right_to_packet_sockets(self):
        daemon = self.serve(self.names[0], before=["setpriv", "--bounding-set=-net_raw"])
        self.assertIn("there is no CAP_NET_RAW for packet sockets on d0, so RoCE passes by a UDP socket", daemon.output)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Changes(veth.Case):
    """The interface changes while messages are under way."""

    def test_an_mtu_that_shrinks_under_traffic(self):
        """Longer packets are lost. The log tells, and the transfer goes on once the MTU is back."""
        self.names = self.spaces(4200)
        self.daemons = [self.serve(name) for name in self.names]
        self.while_it_lasts(self.shrink_the_mtu, (4, 20, 100))

    def shrink_the_mtu(self, seconds):
        """Whether packets were lost by it while there was traffic."""
        server, client = self.traffic("write_bw", self.names, by(self.daemons[0]), by(self.daemons[1]), "--verify", "-m", "4096", "-s",
                                      "4096", "-D", seconds, "-u", "20")
        client.wait_for("remote address", 20)
        for name in self.names:
            harness.ip("-n", name, "link", "set", "d0", "mtu", "1500")
        for daemon in self.daemons:
            daemon.wait_for("the MTU of d0 is now 1500, so that longer packets of the device are lost, which has 4200; raise it, or "
                            "start the program again", 20)
        while not (dropped := self.counters_of(self.daemons[1])["kif_tx_dropped"]) and client.process.poll() is None:
            time.sleep(0.05)
        for name in self.names:
            harness.ip("-n", name, "link", "set", "d0", "mtu", "4200")
        self.finish_both(server, client)
        return dropped > 0

    def test_an_interface_that_goes_away_and_comes_back_under_traffic(self):
        names = self.spaces(1500)
        daemons = [self.serve(name, "--address", f"10.117.0.{number}/24") for number, name in enumerate(names, 1)]
        for test in ("write_bw", "read_bw"):
            server, client = self.traffic(test, names, by(daemons[0]), by(daemons[1]), "--verify", "-q", "4", "-s", "65536", "-D",
                                          "4", *veth.PATIENT)
            client.wait_for("remote address", 20)
            time.sleep(0.3)
            veth.renew(names, pause=0.3, arp="on")
            self.finish_both(server, client)
        probes = self.counters_of(daemons[1])["probes"]
        self.assertLess(probes, 100, "some for each queue pair, not one for each of 512 READs that were lost")


if __name__ == "__main__":
    harness.main()
