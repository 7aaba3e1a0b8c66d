#!/usr/bin/env python3
"""Frames that name what their sender should not know are counted by peer and kind: `uroce show peer`."""

import os
import re
import shutil
import struct
import time
import unittest
import zlib

import harness
import test_network
import verbs
from harness import BUILD
from test_network import FAR, checksum

NOBODY = 65534
UROCE = BUILD / "apps" / "uroce" / "uroce"
GUESSED = BUILD / "tests" / "system" / "clients" / "client_guessed"
PEER, STRANGER = "10.9.0.254", "10.9.0.253"
NO_QP = 0xabcdef
SEND_ONLY, WRITE_ONLY, UD_SEND_ONLY, HELLO = 0x04, 0x0a, 0x64, 0xc0
EXPECTED_PSN = 1000
CM_QKEY, CM_CLASS, RTU = 0x80010000, 0x07, 0x14


def roce(to, source, opcode, qpn, psn, rest=b""):
    """An Ethernet frame from `source` to 10.9.0.1 with a valid ICRC (IBTA vol. 1, annex A17.3.3)."""
    pad = -len(rest) % 4
    bth = struct.pack("!BBHII", opcode, pad << 4, 0xffff, qpn, psn) + rest + bytes(pad)
    udp = struct.pack("!HHHH", 0xc000, 4791, 8 + len(bth) + 4, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(bth) + 4, 1, 0x4000, 64, 17, 0,
                     bytes(map(int, source.split("."))), bytes((10, 9, 0, 1)))
    # Fields that routers may change count as ones.
    masked_ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    masked = bytes([255] * 8) + masked_ip + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:]
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return to + FAR + b"\x08\x00" + ip + udp + bth + struct.pack("<I", zlib.crc32(masked))


def datagram(qkey, payload):
    return struct.pack("!II", qkey, 1) + payload


def mad(attribute, ids):
    """A message of the connection manager (13.4.2)."""
    header = struct.pack("!BBBBHHQHHI", 1, CM_CLASS, 2, 3, 0, 0, 1, attribute, 0, 0)
    return (header + struct.pack("!II", *ids)).ljust(256, b"\0")


@unittest.skipUnless(test_network.NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Guesses(test_network.Link):
    def setUp(self):
        super().setUp()
        # The kernel at the far end says where the peer is.
        harness.ip("-n", self.far, "link", "set", "d0", "arp", "on")
        harness.ip("-n", self.far, "addr", "add", f"{PEER}/24", "dev", "d0")
        self.process = self.daemon("--address", "10.9.0.1/24")
        links = harness.loads(self.finish(self.start(["ip", "-json", "link", "show", "d0"], self.near), 20))
        self.mac = bytes.fromhex(links[0]["address"].replace(":", ""))
        program = self.start([GUESSED, "uroce0", PEER], env=self.env)
        program.wait_for("ready", 20)
        self.rc, self.ud = map(int, re.search(r"rc (\d+) ud (\d+)", program.output).groups())

    def frame(self, *args):
        return roce(self.mac, *args)

    def peers(self):
        rows = harness.loads(self.finish(self.start([UROCE, "show", "peer", "--json"], env=self.env), 20))
        return {row["peer"]: row for row in rows}

    def wait_for_guesses(self, wanted):
        """Of each peer, those kinds that it has guessed."""
        limit = time.monotonic() + 20 * harness.SLOW
        while True:
            seen = {peer: {kind: count for kind, count in row["guesses"].items() if count} for peer, row in self.peers().items()}
            if seen == wanted or time.monotonic() > limit:
                break
            time.sleep(0.1)
        self.assertEqual(seen, wanted)

    def test_each_kind_is_counted_by_peer(self):
        self.assertEqual(self.peers(), {})
        far_psn = EXPECTED_PSN + (1 << 20)
        hello = struct.pack("!IBBHIII", 0x55524f43, 1, 0, 64, 1, 0xbadbad, 0)
        reth = struct.pack("!QII", 4096, 0x1234, 4)
        self.send(*3 * [self.frame(PEER, SEND_ONLY, NO_QP, 0)],
                  *5 * [self.frame(PEER, SEND_ONLY, self.rc, far_psn)],
                  *2 * [self.frame(PEER, UD_SEND_ONLY, self.ud, 0, datagram(0x4321, b"hello"))],
                  *4 * [self.frame(PEER, HELLO, self.rc, EXPECTED_PSN, hello)],
                  *6 * [self.frame(PEER, UD_SEND_ONLY, 1, 0, datagram(CM_QKEY, mad(RTU, (7, 8))))],
                  *7 * [self.frame(STRANGER, SEND_ONLY, self.rc, EXPECTED_PSN)],
                  # No guesses: the peer's next packet, to a queue pair that has no receive, and a broken frame.
                  self.frame(PEER, SEND_ONLY, self.rc, EXPECTED_PSN),
                  self.frame(PEER, SEND_ONLY, NO_QP, 0)[:-1] + b"?")
        of_peer = {"qpn": 3, "psn": 5, "qkey": 2, "epoch": 4, "cm_id": 6}
        self.wait_for_guesses({PEER: of_peer, STRANGER: {"source": 7}})
        self.send(self.frame(PEER, WRITE_ONLY, self.rc, EXPECTED_PSN, reth + b"data"))
        self.wait_for_guesses({PEER: {**of_peer, "rkey": 1}, STRANGER: {"source": 7}})
        table = self.finish(self.start([UROCE, "show", "peer"], env=self.env), 20)
        self.assertRegex(table, rf"uroce0 +{re.escape(PEER)} .*\b6\b")
        columns = self.finish(self.start([UROCE, "show", "peer", "--help"]), 20).split("frames and messages for\n")[1]
        self.assertEqual(re.findall(r"(?m)^  (\w+) ", columns), list(self.peers()[PEER]["guesses"]))

    def test_a_peer_with_a_thousand_has_a_line_in_the_log(self):
        burst = 250 * [self.frame(STRANGER, SEND_ONLY, NO_QP, 0)]  # twice as many fit the port's ring
        for sent in (250, 500, 750, 1000):
            self.send(*burst)
            self.wait_for_guesses({STRANGER: {"qpn": sent}})
        self.process.wait_for(f"1000 frames from {STRANGER} name what their sender should not know (qpn 1000)", 20)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "becomes another user")
    def test_ordinary_users_do_not_see_them(self):
        self.directory.chmod(0o755)
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        program = self.start([*become, UROCE, "show", "peer"], env=self.env)
        self.assertNotEqual(program.wait(20), 0)
        self.assertIn("not for user", program.output)


class Keys(verbs.Case):
    def test_a_guesser_of_keys_connects_more_slowly(self):
        """On RC each wrong key ends the connection, and the guesser connects again. Without a bound it tries thousands of keys in
        a second."""
        program = BUILD / "tests" / "system" / "clients" / "client_key_guesser"
        if not program.exists():
            self.skipTest("client_key_guesser is not built; it needs the development files of librdmacm")
        port = harness.free_port()
        server = self.start([verbs.RUN, program, "server", "10.117.0.1", port], env=self.env)
        server.wait_for("ready", 20)
        guesser = self.start([verbs.RUN, program, "client", "10.117.0.1", port], env=self.env)
        limit = time.monotonic() + 60 * harness.SLOW
        while not self.counter("cm_slowed") and time.monotonic() < limit:
            self.assertIsNone(guesser.process.poll(), str(guesser))
            time.sleep(0.1)
        self.assertGreater(self.counter("cm_slowed"), 0, f"{guesser}\n{server}")
        free = guesser.output.count("guessed")
        self.assertGreaterEqual(free, 20)
        # It still connects: its request is repeated.
        guesser.wait_for(f"{free + 1} guessed", 60)
        self.daemon.wait_for("whose connections end by keys that open nothing", 20)
        for program in (guesser, server):
            program.kill()


if __name__ == "__main__":
    harness.main()
