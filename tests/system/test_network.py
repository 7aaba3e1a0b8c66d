#!/usr/bin/env python3
"""The daemon's traffic on a link besides RoCE: its addresses, its neighbours, its multicast groups."""

import pathlib
import signal
import struct
import subprocess
import time
import unittest

import harness
from dumpcap import Capture
from harness import BUILD, SOURCE, eal

UROCED = BUILD / "apps" / "uroced" / "uroced"
MEMBER = BUILD / "tests" / "system" / "clients" / "client_member"
NAMESPACES = harness.may_make_namespaces()
PORT = "--vdev=net_af_packet0,iface=d0"
# The far end of the link, where nobody lives: frames are made up and captured there.
FAR = bytes.fromhex("0200000000fe")


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def igmp_query(version, group="0.0.0.0"):
    """An Ethernet frame with a query that wants its answer within a second."""
    address = bytes(map(int, group.split(".")))
    body = bytes([0x11, 10, 0, 0]) + address + (bytes([2, 125, 0, 0]) if version == 3 else b"")
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    to = bytes([224, 0, 0, 1]) if group == "0.0.0.0" else address
    ip = struct.pack("!BBHHHBBH4s4s4s", 0x46, 0xc0, 24 + len(body), 0, 0, 1, 2, 0, bytes([10, 9, 0, 254]), to,
                     bytes([0x94, 4, 0, 0]))
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return bytes([1, 0, 0x5e, to[1] & 127]) + to[2:] + FAR + b"\x08\x00" + ip + body


class Link(harness.Case):
    """A daemon at one end of a link; the other end is captured."""

    def setUp(self):
        super().setUp()
        self.spaces = harness.Namespaces(mtu=1500)
        self.spaces.__enter__()
        self.addCleanup(self.spaces.__exit__)
        self.near, self.far = self.spaces.names
        self.socket = self.directory / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}

    def daemon(self, *args, port=PORT):
        program = self.start([UROCED, *eal(port), "--", "--socket", self.socket, *args], self.near)
        program.wait_for("serving uroce0", 20)
        return program

    def capture(self, only=""):
        """Captures what comes out of the daemon from now on, or of it what a filter in libpcap's words lets pass."""
        return Capture(self, self.far, "d0", only, "-c", 2000)

    def member(self, *groups):
        program = self.start([MEMBER, "uroce0", *groups], env=self.env)
        program.wait_for("joined", 20)
        return program

    def send(self, *frames):
        done = self.start([SOURCE / "tests" / "system" / "frames.py", "d0", *(frame.hex() for frame in frames)], self.far)
        self.finish(done, 20)


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Multicast(Link):
    def test_joins_and_leaves_are_told(self):
        self.daemon("--address", "10.9.0.1/24")
        capture = self.capture()
        member = self.member("239.1.2.3", "ff0e::1:2")
        joins = capture.wait_for(2, "igmp.type == 0x22 && igmp.record_type == 4", "ip.src", "ip.dst", "igmp.maddr", "ip.ttl")
        self.assertEqual(set(joins), {"10.9.0.1\t224.0.0.22\t239.1.2.3\t1"})
        capture.wait_for(2, "icmpv6.type == 143 && icmpv6.mldr.mar.record_type == 4 && "
                            "icmpv6.mldr.mar.multicast_address == ff0e::1:2 && ipv6.dst == ff02::16")
        member.kill()  # a client that dies leaves its groups
        capture.wait_for(2, "igmp.type == 0x22 && igmp.record_type == 3 && igmp.maddr == 239.1.2.3")
        capture.wait_for(2, "icmpv6.type == 143 && icmpv6.mldr.mar.record_type == 3 && "
                            "icmpv6.mldr.mar.multicast_address == ff0e::1:2")
        capture.end()

    def test_queries_are_answered(self):
        self.daemon("--address", "10.9.0.1/24")
        self.member("239.1.2.3")
        capture = self.capture()
        self.send(igmp_query(3))
        capture.wait_for(1, "igmp.type == 0x22 && igmp.record_type == 2 && igmp.maddr == 239.1.2.3")
        self.send(igmp_query(2, "239.1.2.3"))
        capture.wait_for(1, "igmp.type == 0x16 && igmp.maddr == 239.1.2.3 && ip.dst == 239.1.2.3")
        capture.end()

    def test_the_interface_receives_groups(self):
        self.daemon("--address", "10.9.0.1/24")
        flags = subprocess.run(["ip", "netns", "exec", self.near, "ip", "-d", "link", "show", "d0"], capture_output=True,
                               text=True, timeout=20 * harness.SLOW, check=True).stdout
        self.assertIn("allmulti 1", flags)


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Addresses(Link):
    def announcements(self, address):
        return (f"arp.opcode == 1 && arp.src.proto_ipv4 == {address} && arp.dst.proto_ipv4 == {address} && "
                "eth.dst == ff:ff:ff:ff:ff:ff")

    def test_are_told_at_start_and_whenever_the_link_comes_up(self):
        capture = self.capture()
        daemon = self.daemon("--address", "10.9.0.1/24,2001:db8::1/64")
        capture.wait_for(2, self.announcements("10.9.0.1"))
        for address in ("2001:db8::1", "fe80::/10"):
            # From ::, to its solicited-node group: is anybody else there? Then to all nodes: I am.
            capture.wait_for(1, f"icmpv6.type == 135 && ipv6.src == :: && icmpv6.nd.ns.target_address == {address}")
            capture.wait_for(2, f"icmpv6.type == 136 && ipv6.dst == ff02::1 && icmpv6.nd.na.target_address == {address}")
        before = len(capture.lines(self.announcements("10.9.0.1")))
        harness.ip("-n", self.near, "link", "set", "d0", "down")
        daemon.wait_for("uroce0: the link is down", 20)
        harness.ip("-n", self.near, "link", "set", "d0", "up")
        daemon.wait_for("uroce0: the link is up", 20)
        capture.wait_for(before + 2, self.announcements("10.9.0.1"))
        capture.end()

    def test_somebody_elses_claim_is_told(self):
        daemon = self.daemon("--address", "10.9.0.1/24")
        self.send(self.arp("10.9.0.1", "10.9.0.1"))
        daemon.wait_for("02:00:00:00:00:fe also has the address 10.9.0.1", 20)
        stat = self.start([BUILD / "apps" / "uroce" / "uroce", "stat", "--interval", "0", "--json", "--socket", self.socket])
        self.assertGreater(harness.loads(self.finish(stat, 20))[0]["counters"]["address_conflicts"], 0)

    @staticmethod
    def arp(sender, target):
        """A gratuitous or other request from the far end."""
        def address(text):
            return bytes(map(int, text.split(".")))
        return (b"\xff" * 6 + FAR + b"\x08\x06" + bytes([0, 1, 8, 0, 6, 4, 0, 1]) + FAR + address(sender) + bytes(6) +
                address(target))

    def test_connections_follow_a_neighbour_that_moves(self):
        self.while_it_lasts(self.follow_a_neighbour_that_moves)

    def follow_a_neighbour_that_moves(self, seconds):
        server, client = self.start_pair("write_bw", eal(PORT), eal(PORT), *harness.IDLE, "-s", "1024", "-D", seconds,
                                         server_args=("--address", "10.9.0.1/24"), client_args=("--address", "10.9.0.2/24"),
                                         namespaces=(self.far, self.near), address="10.199.0.2")
        # A claim counts as the answer while the client still asks for the neighbour: the neighbour must be known first.
        if not self.capture("udp port 4791").sees(1, "infiniband.bth.opcode == 10", client):
            return False
        capture = self.capture("ether dst 02:00:00:00:00:fe")
        for _ in range(20):  # a stranger's claims, while the neighbour is where it was
            self.send(self.arp("10.9.0.1", "10.9.0.1"))
            time.sleep(0.1)
        self.assertEqual(capture.lines("infiniband.bth"), [])
        server.process.send_signal(signal.SIGSTOP)
        while not (moved := capture.lines("infiniband.bth.opcode == 10")) and client.process.poll() is None:
            self.send(self.arp("10.9.0.1", "10.9.0.1"))
        capture.dump.kill()
        server.process.kill()
        client.process.kill()
        return bool(moved)

    @unittest.skipUnless(pathlib.Path("/usr/lib/python3/dist-packages/pyverbs").exists(), "python3-pyverbs is not installed")
    def test_change_seen_through_libibverbs(self):
        path = self.directory / "uroced.toml"
        path.write_text('[[device]]\naddresses = ["10.9.0.1/24"]\n')
        daemon = self.daemon("--config", path)
        script = ("from pyverbs.device import Context\n"
                  "with Context(name='uroce0') as context:\n"
                  "    def show(): print(*(context.query_gid(1, i).gid for i in range(4)), flush=True)\n"
                  "    show()\n"
                  "    event = context.get_async_event()\n"
                  "    print('event', event.event_type)\n"
                  "    event.ack()\n"
                  "    show()\n")
        program = self.start([BUILD / "apps" / "uroce-run" / "uroce-run", "/usr/bin/python3", "-c", script], env=self.env)
        program.wait_for("0a09:0001", 20)
        path.write_text('[[device]]\naddresses = ["10.9.0.7/24"]\n')
        daemon.process.send_signal(signal.SIGHUP)
        before, event, after = self.finish(program, 20).splitlines()
        self.assertEqual(event, "event 18")  # IBV_EVENT_GID_CHANGE
        before, after = before.split(), after.split()
        self.assertTrue(before[0].endswith("ffff:0a09:0001") and after[0].strip("0:") == "", (before, after))
        self.assertEqual(before[1], after[1], "the link-local address keeps its place")
        self.assertTrue(after[2].endswith("ffff:0a09:0007"), after)

    @unittest.skipUnless((BUILD / "lib" / "dropin" / "sysfs").exists(), "the drop-in libraries are not built")
    def test_change_seen_in_the_view(self):
        """uroce-run keeps /sys/class/infiniband up to date."""
        path = self.directory / "uroced.toml"
        path.write_text('[[device]]\naddresses = ["10.9.0.1/24"]\n')
        daemon = self.daemon("--config", path)
        script = """cd /sys/class/infiniband/uroce0/ports/1
            cat gids/0
            for try in $(seq 400); do grep -l 0a09:0007 gids/* && break; sleep 0.05; done
            cat gids/0; cat gid_attrs/types/0; cat gid_attrs/types/2"""
        program = self.start([BUILD / "apps" / "uroce-run" / "uroce-run", "bash", "-c", script], env=self.env)
        program.wait_for("0a09:0001", 20)
        path.write_text('[[device]]\naddresses = ["10.9.0.7/24"]\n')
        daemon.process.send_signal(signal.SIGHUP)
        _, place, first, missing, kind = self.finish(program, 40).splitlines()
        self.assertEqual((place, first.strip("0:"), kind), ("gids/2", "", "RoCE v2"))
        self.assertIn("gid_attrs/types/0: No such file", missing)

    def test_change_at_sighup(self):
        path = self.directory / "uroced.toml"
        path.write_text('[[device]]\naddresses = ["10.9.0.1/24"]\n')
        capture = self.capture()
        daemon = self.daemon("--config", path)
        member = self.member()
        told = capture.wait_for(2, self.announcements("10.9.0.1"))  # the second comes after 2 s
        path.write_text('[[device]]\naddresses = ["10.9.0.7/24", "2001:db8::7/64"]\ngateway = "10.9.0.254"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("settings were read again", 20)
        self.assertIn("device[0].addresses changes from", daemon.output)
        member.wait_for("event 18", 20)
        capture.wait_for(2, self.announcements("10.9.0.7"))
        self.assertEqual(capture.lines(self.announcements("10.9.0.1")), told)
        devices = self.start([BUILD / "apps" / "uroce" / "uroce", "devices", "--socket", self.socket])
        shown = self.finish(devices, 20)
        self.assertIn("10.9.0.7", shown)
        self.assertIn("2001:db8::7", shown)
        self.assertNotIn("10.9.0.1", shown)
        # An address that cannot be used changes nothing.
        path.write_text('[[device]]\naddresses = ["10.9.0.8/24"]\ngateway = "10.9.0.254,10.9.0"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("stay as they are", 20)
        capture.end()


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class KernelBeside(Link):
    """The kernel's own stack on the interface under the port."""

    def setUp(self):
        super().setUp()
        for space in self.spaces.names:
            harness.ip("-n", space, "link", "set", "d0", "arp", "on")
        harness.ip("-n", self.far, "addr", "add", "10.9.0.2/24", "dev", "d0")

    def knock(self, address):
        """UDP to RoCE's port, and TCP to one where nobody listens."""
        script = ("import socket, sys\n"
                  "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "for _ in range(3): u.sendto(bytes(40), (sys.argv[1], 4791))\n"
                  "t = socket.socket(); t.settimeout(2)\n"
                  "try: t.connect((sys.argv[1], 7777))\n"
                  "except OSError as e: print(type(e).__name__)\n")
        return self.finish(self.start(["python3", "-c", script, address], self.far), 20)

    def test_says_nothing_about_roce_to_an_address_that_it_has_too(self):
        harness.ip("-n", self.near, "addr", "add", "10.9.0.1/24", "dev", "d0")
        daemon = self.daemon("--address", "10.9.0.1/24")
        self.assertIn("the kernel also has 10.9.0.1 on d0", daemon.output)
        capture = self.capture()
        self.assertIn("ConnectionRefusedError", self.knock("10.9.0.1"), "the kernel answers what is its own")
        capture.wait_for(3, "udp.dstport == 4791")
        self.assertEqual(capture.lines("icmp"), [])

    def test_leaves_an_address_alone_that_it_does_not_have(self):
        harness.ip("-n", self.near, "addr", "add", "10.9.0.1/24", "dev", "d0")
        daemon = self.daemon("--address", "10.9.0.5/24")
        self.assertNotIn("kernel", daemon.output)
        capture = self.capture()
        self.assertIn("Timeout", self.knock("10.9.0.5"))
        capture.wait_for(3, "udp.dstport == 4791")
        self.assertEqual(capture.lines("icmp || tcp.flags.reset == 1"), [])

    def test_forwarding_and_other_interfaces_are_told(self):
        harness.sysctl(self.near, "net.ipv4.conf.d0.forwarding=1")
        daemon = self.daemon("--address", "10.9.0.5/24,10.199.0.1/24")
        self.assertIn("sysctl -w net.ipv4.conf.d0.forwarding=0", daemon.output)
        self.assertIn("the kernel has 10.199.0.1 on c0, and answers for it on d0", daemon.output)

    def test_the_port_in_use_is_told(self):
        script = "import socket, time; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 4791)); print('bound', flush=True); time.sleep(600)"
        self.start(["python3", "-c", script], self.near).wait_for("bound", 20)
        self.assertIn("UDP port 4791 of 10.9.0.5 is in use", self.daemon("--address", "10.9.0.5/24").output)


if __name__ == "__main__":
    harness.main()
