#!/usr/bin/env python3
"""What the daemon says and hears on a link besides RoCE: its addresses, its neighbours, its multicast groups."""

import os
import pathlib
import signal
import struct
import subprocess
import time
import unittest

import harness
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

    def capture(self):
        """Starts to capture what comes out of the daemon; call .read(filter, fields...) at the end."""
        return Capture(self)

    def member(self, *groups):
        program = self.start([MEMBER, "uroce0", *groups], env=self.env)
        program.wait_for("joined", 20)
        return program

    def send(self, *frames):
        done = self.start([SOURCE / "tests" / "system" / "frames.py", "d0", *(frame.hex() for frame in frames)], self.far)
        self.finish(done, 20)


class Capture:
    def __init__(self, case):
        self.case = case
        self.file = case.directory / f"far-{time.monotonic_ns()}.pcap"
        self.dump = case.start(["dumpcap", "-q", "-P", "-i", "d0", "-w", self.file], case.far)
        self.dump.wait_for("File:", 20)

    def lines(self, display, *fields):
        """What has been captured by now, filtered; with fields, those alone."""
        args = ["tshark", "-r", self.file, "-Y", display]
        if fields:
            args += ["-T", "fields", *(word for field in fields for word in ("-e", field))]
        done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        return done.stdout.splitlines()

    def wait_for(self, count, display, *fields, seconds=20):
        limit = time.monotonic() + seconds * harness.SLOW
        while len(lines := self.lines(display, *fields)) < count:
            if time.monotonic() > limit:
                raise AssertionError(f"{len(lines)} of {count} frames '{display}' came; there were\n" +
                                     "\n".join(self.lines("frame")))
            time.sleep(0.1)
        return lines

    def end(self):
        """No frame was malformed."""
        self.dump.process.terminate()
        self.dump.wait(20)
        self.case.assertEqual(self.lines("_ws.malformed || _ws.expert.severity == error"), [])


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
                               text=True, timeout=20, check=True).stdout
        self.assertIn("allmulti 1", flags)


if __name__ == "__main__":
    harness.main()
