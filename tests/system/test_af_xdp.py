#!/usr/bin/env python3
"""Ports of DPDK's net_af_xdp on a veth pair between two namespaces, with and without the kernel beside them."""

import ctypes
import hashlib
import os
import platform
import re
import signal
import struct
import subprocess
import unittest

import harness
from harness import BUILD, IDLE, PERF, eal, ip

UROCED = BUILD / "apps" / "uroced" / "uroced"
KERNEL = ("--address", "kernel")
PORT = "--vdev=net_af_xdp0,iface=d0"
NEAR, FAR = "10.5.0.1", "10.5.0.2"
NEAR6, FAR6 = "2001:db8:5::1", "2001:db8:5::2"
LARGEST_MTU = 3438
TESTS = (("write_bw", ("-s", "65536", "-n", "100")), ("read_bw", ("-s", "65536", "-n", "100")),
         ("send_bw", ("-s", "65536", "-n", "100")), ("atomic_bw", ("-n", "200")))

# Receives one stream and prints its SHA-256.
SINK = """import hashlib, socket
s = socket.create_server(("", 7777))
print("listening", flush=True)
c, _ = s.accept()
h = hashlib.sha256()
while b := c.recv(1 << 16):
    h.update(b)
print(h.hexdigest())
"""
SOURCE = """import socket, sys
socket.create_connection((sys.argv[1], 7777)).sendall(open(sys.argv[2], "rb").read())
"""


def bpf(command, attributes):
    """bpf(2): the result, and the attributes as the kernel left them."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, 128)
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    result = libc.syscall(ctypes.c_long(number), ctypes.c_int(command), buffer, ctypes.c_uint(len(buffer)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"bpf({command})")
    return result, buffer.raw


def verdict(program, frame):
    """The action of an XDP program for a frame of queue 0 (BPF_PROG_TEST_RUN): "up" or "kernel"."""
    data = ctypes.create_string_buffer(frame, len(frame))
    _, after = bpf(10, struct.pack("=IIIIQQII", program, 0, len(frame), 0, ctypes.addressof(data), 0, 1, 0))
    return {2: "kernel", 4: "up"}[struct.unpack_from("=I", after, 4)[0]]


def ethernet(kind, rest, tag=None):
    tags = b"" if tag is None else struct.pack(">HH", 0x8100, tag)
    return bytes(12) + tags + struct.pack(">H", kind) + rest


def udp(to=4791, source=50000):
    return struct.pack(">HHHH", source, to, 40, 0) + bytes(32)


def ipv4(rest=udp(), protocol=17, fragment=0, options=b"", version=4):
    words = 5 + len(options) // 4
    return struct.pack(">BBHHHBBH8x", version << 4 | words, 0, 4 * words + len(rest), 0, fragment, 64, protocol, 0) + options + rest


def ipv6(rest=udp(), header=17):
    return struct.pack(">IHBB32x", 6 << 28, len(rest), header, 64) + rest


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(os.environ.get("UROCE_HAVE_XDP", "1") == "1", "this build has no XDP program, as it found no clang for BPF")
class AfXdp(harness.Case):
    def setUp(self):
        super().setUp()
        tag = f"ur{os.getpid() % 100000}x"
        self.near, self.far = tag + "n", tag + "f"
        for name in (self.near, self.far):
            ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], timeout=30 * harness.SLOW, check=False)
            harness.sysctl(name, "net.ipv6.conf.default.accept_dad=0")
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.near, "link", "add", "d0", "type", "veth", "peer", "name", "d0", "netns", self.far)
        for name, *addresses in ((self.near, f"{NEAR}/24", f"{NEAR6}/64"), (self.far, f"{FAR}/24", f"{FAR6}/64")):
            for address in addresses:
                ip("-n", name, "addr", "add", address, "dev", "d0")
            ip("-n", name, "link", "set", "d0", "up")

    def mtu(self, mtu):
        for name in (self.near, self.far):
            ip("-n", name, "link", "set", "d0", "mtu", mtu)

    def attached(self):
        """The XDP program on the near interface; empty for none."""
        shown = subprocess.run(["ip", "-n", self.near, "link", "show", "d0"], capture_output=True, text=True, timeout=30 * harness.SLOW,
                               check=True).stdout
        return shown[shown.index("prog/xdp"):] if "prog/xdp" in shown else ""

    def pair(self, test, *args, near=PORT, far=PORT):
        return self.run_pair(test, eal(near), eal(far), *IDLE, *KERNEL, "--verify", *args, namespaces=(self.near, self.far),
                             address=NEAR)

    def daemon(self, name="uroced.sock"):
        return self.start([UROCED, *eal(PORT), "--", "--socket", self.directory / name, *KERNEL], self.near)

    def refused(self, *args, port=PORT):
        program = self.start([PERF, "write_bw", *eal(port), "--", *IDLE, "-p", harness.free_port(), *args], self.near)
        self.assertNotEqual(program.wait(30), 0, str(program))
        return program.output

    def ping(self, address):
        shown = self.finish(self.start(["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "3", address], self.far), 30)
        self.assertIn("3 packets received", shown)
        self.assertNotIn("DUP", shown)

    def test_every_operation(self):
        for mtu in (1500, LARGEST_MTU):
            self.mtu(mtu)
            for test, args in TESTS:
                with self.subTest(mtu=mtu, test=test):
                    self.pair(test, *args)
        self.pair("write_bw", "-x", "1", "-s", "65536", "-n", "100")  # IPv6
        self.assertEqual(self.attached(), "")

    def test_a_peer_with_super_frames(self):
        for test, args in TESTS:
            with self.subTest(test):
                self.pair(test, *args, far="--vdev=net_uroce_kif0,iface=d0")

    def test_queues_that_nobody_serves(self):
        ip("-n", self.near, "link", "del", "d0")
        ip("-n", self.near, "link", "add", "d0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth", "peer", "name", "d0",
           "netns", self.far)
        ip("-n", self.near, "link", "set", "d0", "up")
        daemon = self.daemon()
        daemon.wait_for("d0 receives by 2 queues, and 1 of them are served", 30)

    def test_the_kernel_goes_on(self):
        """A TCP transfer with checked content and pings, while RoCE packets pass on the same interface and address."""
        self.while_it_lasts(self.the_kernel_goes_on)

    def the_kernel_goes_on(self, seconds):
        """Whether the RoCE traffic of so many seconds lasted longer than the kernel's."""
        server, client = self.start_pair("write_bw", eal(PORT), eal(PORT), *IDLE, *KERNEL, "--verify", "-s", "65536", "-D", seconds,
                                         namespaces=(self.near, self.far), address=NEAR)
        client.wait_for("remote address", 20)
        self.assertIn("uroce_steering", self.attached())
        content = self.directory / "content"
        content.write_bytes(os.urandom(1 << 23))
        sink = self.start(["python3", "-c", SINK], self.near)
        sink.wait_for("listening", 20)
        self.finish(self.start(["python3", "-c", SOURCE, NEAR, content], self.far), 60)
        self.assertIn(hashlib.sha256(content.read_bytes()).hexdigest(), self.finish(sink, 30))
        for address in (NEAR, NEAR6):
            self.ping(address)
        lasted = client.process.poll() is None
        self.finish(client, seconds + 60)
        self.finish(server, 60)
        return lasted

    def ip_counters(self):
        """The near kernel's counters of IPv4 (/proc/net/snmp)."""
        shown = self.finish(self.start(["cat", "/proc/net/snmp"], self.near), 30)
        names, values = [line.split()[1:] for line in shown.splitlines() if line.startswith("Ip:")]
        return dict(zip(names, map(int, values)))

    def counted(self, send):
        """The near kernel's counts while the far one sends, and three pings."""
        before = self.ip_counters()
        self.finish(self.start(["python3", "-c", "import socket\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n" + send],
                               self.far), 30)
        self.ping(NEAR)  # what was sent before has arrived
        after = self.ip_counters()
        return {name: after[name] - before[name] for name in ("InReceives", "ReasmOKs")}

    def test_what_the_kernel_keeps(self):
        """Other ports and fragments, these also of RoCE. It sees no RoCE packet."""
        daemon = self.daemon()
        daemon.wait_for("serving uroce0", 30)
        pings = 3
        for port, size, frames, whole in ((4791, 64, 0, 0), (4790, 64, 5, 0), (4791, 4000, 15, 5)):
            with self.subTest(port=port, size=size):
                self.assertEqual(self.counted(f"for _ in range(5): u.sendto(bytes({size}), ('{NEAR}', {port}))\n"),
                                 {"InReceives": frames + pings, "ReasmOKs": whole})
        daemon.process.terminate()
        self.finish(daemon, 30)
        self.assertEqual(self.attached(), "")

    def test_which_frames_come_up(self):
        daemon = self.daemon()
        daemon.wait_for("serving uroce0", 30)
        program, _ = bpf(13, struct.pack("=I", int(re.search(r"id (\d+)", self.attached()).group(1))))
        self.addCleanup(os.close, program)
        up = (ethernet(0x800, ipv4()), ethernet(0x800, ipv4(fragment=0x4000)),
              ethernet(0x86DD, ipv6()), ethernet(0x800, ipv4(), tag=0), ethernet(0x86DD, ipv6(), tag=0xE000))
        kernel = (ethernet(0x800, ipv4(udp(to=4790))), ethernet(0x800, ipv4(udp(to=53, source=4791))),
                  ethernet(0x800, ipv4(protocol=6)), ethernet(0x800, ipv4(fragment=0x2000)), ethernet(0x800, ipv4(fragment=1)),
                  ethernet(0x800, ipv4(version=6)), ethernet(0x800, b"\x44" + ipv4()[1:]), ethernet(0x800, ipv4(options=bytes(8))),
                  ethernet(0x86DD, ipv6(udp(to=4790))),
                  ethernet(0x86DD, ipv6(b"\x11" + bytes(7) + udp(), header=0)), ethernet(0x800, ipv4(), tag=7),
                  ethernet(0x8100, struct.pack(">HH", 0, 0x800) + ipv4(), tag=0), ethernet(0x806, ipv4()))
        short = [frame[:length] for frame in up for length in range(14, len(frame) - 32)]  # 32 bytes follow the UDP header
        for wanted, frames in (("up", up), ("kernel", (*kernel, *short))):
            for frame in frames:
                self.assertEqual(verdict(program, frame), wanted, frame.hex())

    def test_a_port_with_its_own_address_takes_the_interface(self):
        with harness.Namespaces(1500) as spaces:
            self.run_pair("write_bw", eal(PORT), eal(PORT), *IDLE, "--verify", "-s", "65536", "-n", "100",
                          namespaces=spaces.names, address="10.199.0.1")

    def test_an_mtu_that_does_not_fit(self):
        self.assertIn(f"cannot have mtu 4200; its limit is {LARGEST_MTU}", self.refused(*KERNEL, "--port-mtu", "4200"))
        self.mtu(4200)
        said = self.refused(*KERNEL)
        self.assertIn(f"cannot use d0, whose MTU is 4200; the limit is {LARGEST_MTU}", said)
        self.assertIn("--interface d0", said)
        self.assertEqual(self.attached(), "")

    def test_two_daemons_on_one_interface(self):
        first = self.daemon()
        first.wait_for("serving uroce0", 30)
        self.assertIn("interface d0 has an XDP program already", self.refused(*KERNEL))
        self.assertIn("uroce_steering", self.attached(), "the first one's program stays")
        # After a kill the program stays, and hands RoCE to nobody.
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(20)
        self.ping(NEAR)
        second = self.daemon("second.sock")
        second.wait_for("serving uroce0", 30)
        second.process.terminate()
        self.finish(second, 30)
        self.assertEqual(self.attached(), "")

    def test_no_such_interface(self):
        self.assertIn("'d7'", self.refused(*KERNEL, port="--vdev=net_af_xdp0,iface=d7"))


if __name__ == "__main__":
    harness.main()
