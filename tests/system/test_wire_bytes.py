#!/usr/bin/env python3
"""The bytes of super-frames on the wire: tshark, zlib and our own parser read them, and they are those of frames sent one by one."""

import pathlib
import struct
import subprocess
import time
import unittest
import zlib

import dumpcap
import harness
import veth
from harness import IDLE, eal

READ_FRAMES = harness.BUILD / "tests/unit/wire/read_frames"
TSHARK = pathlib.Path("/usr/bin/tshark").exists()
# A second. A READ that is asked for again in its middle would have other packets.
PATIENT = ("-u", "18")
LAST_PORT = 61000  # of a datagram that ends a capture; programs themselves send some to the discard port
BTH = 42  # offset behind Ethernet, IPv4 and UDP
READ_RESPONSES = range(13, 17)
WITH_RETH = (6, 10, 11, 12)
WRITES, WRITE_ONLY = (6, 7, 8, 10), 10
ACK, ATOMIC_ACK = 17, 18
ATOMICS = (19, 20)
MANUFACTURER = 0xC0  # HELLO and SACK


def packets_of(capture):
    """The RoCE frames of a pcap file over IPv4, whole, and whether the last datagram is in it."""
    data = capture.read_bytes()
    frames, ended, at = [], False, 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + length]
        if len(frame) < length:
            break  # dumpcap is still writing it
        port = struct.unpack_from(">H", frame, 36)[0] if frame[12:14] == b"\x08\x00" else None
        if port == 4791:
            frames.append(frame)
        ended = ended or port == LAST_PORT
        at += 16 + length
    return frames, ended


def icrc_of(frame):
    """The four bytes that should end an IPv4 frame without tag and options (IBTA vol. 1, annex A17.3.3)."""
    ip = bytearray(frame[14:14 + struct.unpack_from(">H", frame, 16)[0]])
    for masked in (1, 8, 10, 11, 26, 27, 32):
        ip[masked] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip[:-4])))


def fields_of(frame):
    """Numbers that tshark and our parser must read."""
    return {"opcode": frame[BTH], "destqp": int.from_bytes(frame[BTH + 5:BTH + 8], "big"), "psn": psn_of(frame),
            "udp_length": len(frame) - 34, "icrc": int.from_bytes(frame[-4:], "big")}


def psn_of(frame):
    return int.from_bytes(frame[BTH + 9:BTH + 12], "big")


class Flow:
    """The packets of one transfer between two queue pairs, in words that do not depend on the numbers, the addresses in memory and
    the keys that this run has drawn. `first` is the requester's first PSN."""

    def __init__(self, frames):
        sent = [frame for frame in frames if frame[BTH] < MANUFACTURER and frame[BTH] not in (ACK, ATOMIC_ACK, *READ_RESPONSES)]
        self.first = psn_of(sent[0])
        self.address = next((struct.unpack_from(">Q", frame, BTH + 12)[0] for frame in sent
                             if frame[BTH] in (*WITH_RETH, *ATOMICS)), 0)
        writes = [frame[BTH] for frame in sent if frame[BTH] in WRITES]
        self.onlies = writes.count(WRITE_ONLY) / max(len(writes), 1)
        self.packets = {}
        self.unequal = []  # packets that came again as others
        for frame in frames:
            # When responders acknowledge, and how often, depends on the moment.
            if frame[BTH] < MANUFACTURER and frame[BTH] != ACK:
                key = (frame[26:30], (psn_of(frame) - self.first) & 0xFFFFFF)
                if self.packets.setdefault(key, self.payload(frame)) != self.payload(frame):
                    self.unequal.append(key)

    def payload(self, frame):
        """The payload of UDP without seal, QPN, request for an ACK, PSN, key and ICRC, and with addresses from the first one on. A WRITE
        that begins before the peer's HELLO goes whole, and others as Onlies, so those have no opcode and no RETH here."""
        payload = bytearray(frame[BTH:-4])
        payload[4] &= 0xC0
        payload[5:12] = bytes(7)
        if payload[0] in WRITES:
            if payload[0] in WITH_RETH:
                del payload[12:28]
            payload[0] = WRITE_ONLY
        elif payload[0] in (*WITH_RETH, *ATOMICS):
            address = struct.unpack_from(">Q", payload, 12)[0]
            struct.pack_into(">QI", payload, 12, (address - self.address) & 0xFFFFFFFFFFFFFFFF, 0)
        return bytes(payload)


@unittest.skipUnless(TSHARK, "tshark is not installed")
@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class WireBytes(veth.Case):
    def plain_spaces(self):
        """Two namespaces whose kernel cuts super-frames up on the way out, where captures see the frames."""
        names = self.spaces(1500)
        for name in names:
            self.offload(name, "off")
        return names

    def captured(self, names, transfer):
        """The capture of what `transfer` sends, and its frames."""
        capture = dumpcap.Capture(self, names[0], "d0", f"udp port 4791 or udp port {LAST_PORT}", "-B", "64", "-s", "2048")
        transfer()
        subprocess.run(["ip", "netns", "exec", names[1], "bash", "-c", f"echo >/dev/udp/192.0.2.1/{LAST_PORT}"], timeout=20 * harness.SLOW, check=True)
        limit = time.monotonic() + 20 * harness.SLOW
        while not packets_of(capture.file)[1]:
            self.assertLess(time.monotonic(), limit, "dumpcap does not see the last datagram")
            time.sleep(0.05)
        capture.end()
        self.assertRegex(capture.dump.output, r"received/dropped on interface 'd0': \d+/0 ")
        return capture, packets_of(capture.file)[0]

    def parsed(self, capture):
        """A dictionary of words for each frame, as wire::parse() reads it."""
        done = subprocess.run([READ_FRAMES, capture.file], capture_output=True, text=True, timeout=60 * harness.SLOW, check=True)
        return [dict(word.split("=") for word in line.split()) for line in done.stdout.splitlines()]

    def seen_by_tshark(self, capture):
        names = ("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "udp.length", "infiniband.invariant.crc")
        return [line.split("\t") for line in capture.lines("infiniband", *names)]

    def check(self, capture, frames):
        """Each frame has its right lengths and ICRC, and tshark and our parser read in it what is there."""
        ours = [words for words in self.parsed(capture) if words.get("drop") != "not_roce"]
        theirs = self.seen_by_tshark(capture)
        self.assertEqual((len(ours), len(theirs)), (len(frames), len(frames)))
        for frame, words, seen in zip(frames, ours, theirs):
            self.assertLessEqual(len(frame), 1514)
            self.assertEqual(struct.unpack_from(">H", frame, 38)[0], len(frame) - 34, "length of UDP")
            self.assertEqual(frame[18:20], frame[52:54], "the IPv4 id is the PSN's low half")
            self.assertEqual(icrc_of(frame), frame[-4:], frame.hex())
            expected = fields_of(frame)
            # Of all bytes from the IP header on, only the UDP checksum and the BTH's congestion bits may change.
            self.assertEqual(words.pop("passes", None), "26,27,32", f"{words} {frame.hex()}")
            self.assertEqual({key: int(words[key], 16) for key in expected}, expected, frame.hex())
            # tshark 4.0 shows the ICRC and checks none. It knows no ICRC of manufacturer-defined packets.
            known = list(expected.values())[:5 if frame[BTH] < MANUFACTURER else 4]
            self.assertEqual([int(word, 0) for word in seen if word != ""], known, frame.hex())

    def test_of_every_operation(self):
        names = self.plain_spaces()

        def transfers():
            for test, args in veth.TESTS:
                self.pair(names, test, *args)
        capture, frames = self.captured(names, transfers)
        self.assertGreater(len(frames), 3000)
        self.check(capture, frames)

    def test_are_those_of_single_frames(self):
        """The same transfer twice: packet by packet the same payloads of UDP, but for what each run draws anew."""
        names = self.plain_spaces()
        for test, args in (("write_bw", ("-s", "65536", "-n", "40")), ("read_bw", ("-s", "65536", "-n", "40")),
                           ("send_bw", ("-s", "65536", "-n", "40")), ("send_bw", ("-s", "100", "-n", "500")),
                           ("atomic_bw", ("-n", "300"))):
            with self.subTest(test=test, args=args):
                together, alone = [self.flow(names, test, args, how) for how in ("yes", "no")]
                self.assertEqual((together.unequal, alone.unequal), ([], []))
                if test == "write_bw":
                    self.assertGreater(min(together.onlies, alone.onlies), 0.5)
                self.assertEqual(sorted(together.packets), sorted(alone.packets))
                for key, payload in together.packets.items():
                    self.assertEqual(payload, alone.packets[key], f"from {key[0]}, PSN {key[1]} after the first")

    def flow(self, names, test, args, super_frames):
        port = eal(f"--vdev=net_uroce_kif0,iface=d0,super_frames={super_frames}")
        end = ("--address", "kernel")

        def transfer():
            programs = self.start_pair(test, port, eal(*port[-1:]), *IDLE, "--verify", *PATIENT, *args, server_args=end, client_args=end,
                                       namespaces=names, address="10.199.0.1")
            outputs = [self.finish(program, 60) for program in reversed(programs)]
            for output in outputs:
                self.assertIn("super-frames (UDP" if super_frames == "yes" else "single frames", output)
        capture, frames = self.captured(names, transfer)
        self.check(capture, frames)
        return Flow(frames)


if __name__ == "__main__":
    harness.main()
