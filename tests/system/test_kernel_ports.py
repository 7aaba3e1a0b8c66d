#!/usr/bin/env python3
"""Ports of the kernel: af_packet and pcap on veth pairs between namespaces, and tap devices on a bridge."""

import os
import pathlib
import subprocess
import time
import unittest

import harness
from harness import IDLE, eal

NAMESPACES = harness.may_make_namespaces()
PAIRS = (("write_bw", ("-s", "65536", "-n", "100")), ("read_bw", ("-s", "65536", "-n", "100")),
         ("send_bw", ("-s", "65536", "-n", "100")), ("atomic_bw", ("-n", "300")))


def tshark(*args):
    """Lines that tshark prints, without what it says about being root."""
    done = subprocess.run(["tshark", *map(str, args)], capture_output=True, text=True, timeout=120 * harness.SLOW, check=True)
    return done.stdout.splitlines()


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Veth(harness.Case):
    def setUp(self):
        super().setUp()
        self.spaces = harness.Namespaces()
        self.spaces.__enter__()
        self.addCleanup(self.spaces.__exit__)

    def pair(self, device, test, *args, **kw):
        return self.run_pair(test, eal(f"--vdev={device}"), eal(f"--vdev={device}"), *IDLE, "--verify", *args,
                             namespaces=self.spaces.names, address="10.199.0.1", **kw)

    def test_af_packet(self):
        # A frame of 4200 bytes and the ring's own header need slots of 8 KiB.
        for test, args in PAIRS:
            self.pair("net_af_packet0,iface=d0,framesz=8192,blocksz=8192,framecnt=512", test, "-m", "4096", *args)

    def test_af_packet_with_its_defaults(self):
        self.pair("net_af_packet0,iface=d0", "write_bw", "-m", "1024", "-s", "65536", "-n", "100")

    def test_pcap_and_what_tshark_reads(self):
        capture = self.directory / "wire.pcap"
        dump = self.start(["dumpcap", "-q", "-P", "-i", "d0", "-w", capture], self.spaces.names[1])
        dump.wait_for("File:", 20)
        # Without phy_mac both ends would have the driver's one address.
        for test, args in PAIRS:
            self.pair("net_pcap0,iface=d0,phy_mac=1", test, "-m", "1024", *args)
        # As a standard peer has it, for tshark: it knows ACKs, and a SACK by its number alone.
        for test in ("send_bw", "write_bw"):
            self.pair("net_pcap0,iface=d0,phy_mac=1", test, "-m", "1024", "-s", "4096", "-n", "100", "--retransmission", "go-back-n")
        # SEND first, middle, last; WRITE first, middle, last, and Onlies; READ request; READ response first; ACK; FETCH_ADD; HELLO
        # and SACK.
        wanted = {"0", "1", "2", "6", "7", "8", "10", "12", "13", "17", "20", "192", "193"}
        limit = time.monotonic() + 20 * harness.SLOW
        while not wanted <= (opcodes := self.opcodes(capture)) and time.monotonic() < limit:
            time.sleep(0.1)  # dumpcap writes a moment later
        self.assertLessEqual(wanted, opcodes)
        dump.process.terminate()
        dump.wait(20)
        bad = tshark("-r", capture, "-Y", "_ws.malformed || _ws.expert.severity == error || icmp")
        self.assertEqual(bad, [])

    @staticmethod
    def opcodes(capture):
        """In a file to which dumpcap still writes."""
        done = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.opcode"],
                              capture_output=True, text=True, timeout=120 * harness.SLOW, check=False)
        return set(done.stdout.splitlines())


@unittest.skipUnless(NAMESPACES and os.path.exists("/dev/net/tun"), "this machine has no tap devices")
class Tap(harness.Case):
    def test_two_taps(self):
        with harness.Namespaces() as spaces:
            space = spaces.names[0]
            server, client = self.start_pair(
                "write_bw", eal("--vdev=net_tap0,iface=tap0"), eal("--vdev=net_tap0,iface=tap1"), *IDLE, "--verify",
                "-m", "1024", "-s", "65536", "-n", "100", namespaces=(space, space))
            self.wait_for_interface(space, "tap0", server)
            self.wait_for_interface(space, "tap1", client)
            relay = self.start([harness.SOURCE / "tests/system/relay.py", "tap0", "tap1"], space)
            relay.wait_for("relaying", 20)
            self.finish(client, 60)
            self.finish(server, 60)
            relay.kill()

    def wait_for_interface(self, space, interface, program):
        limit = time.monotonic() + 20 * harness.SLOW
        while time.monotonic() < limit and program.process.poll() is None:
            shown = subprocess.run(["ip", "-n", space, "link", "show", interface, "up"], capture_output=True, text=True,
                                   timeout=30 * harness.SLOW, check=False)
            if interface in shown.stdout:
                return
            time.sleep(0.02)
        self.fail(f"no interface {interface} came up: {program}")


@unittest.skipUnless(pathlib.Path("/usr/bin/tshark").exists(), "tshark is not installed")
class PcapFile(harness.Case):
    def test_what_is_sent_to_a_file(self):
        # Nobody answers from a file: the client asks for its peer's address, and says so in the end.
        capture = self.directory / "sent.pcap"
        server, client = self.start_pair(
            "write_bw", eal("--vdev=net_ring0"),
            eal(f"--vdev=net_pcap0,rx_pcap={self.empty_capture()},tx_pcap={capture}"), *IDLE, "-n", "10")
        self.assertNotEqual(client.wait(60), 0, str(client))
        server.kill()
        lines = tshark("-r", capture, "-Y", "arp.opcode == 1 && arp.dst.proto_ipv4 == 10.117.0.1")
        self.assertTrue(lines, str(client))
        self.assertEqual(tshark("-r", capture, "-Y", "_ws.malformed"), [])

    def empty_capture(self):
        path = self.directory / "none.pcap"
        path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        return path


if __name__ == "__main__":
    harness.main()
