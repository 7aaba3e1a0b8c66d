#!/usr/bin/env python3
"""Frames captured from a running daemon: `uroce capture`, and DPDK's own dpdk-dumpcap."""

import os
import pathlib
import signal
import struct
import subprocess
import time
import unittest
import zlib

import harness
from harness import BUILD, eal

UROCED = BUILD / "apps" / "uroced" / "uroced"
UROCE = BUILD / "apps" / "uroce" / "uroce"
PAIR = BUILD / "tests" / "system" / "clients" / "client_pair"
TSHARK = pathlib.Path("/usr/bin/tshark").exists()


def lines(file, display, *fields):
    """The packets that tshark reads through a filter; with `fields`, only those."""
    args = ["tshark", "-r", str(file), "-Y", display]
    if fields:
        args += ["-T", "fields", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(args, capture_output=True, text=True, timeout=120 * harness.SLOW, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(args)} failed with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def frames(file):
    """The packets of a pcapng file."""
    data = file.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28:at + 28 + captured]
        at += length


def icrc_is_right(frame):
    """Whether it is that of a RoCE frame over IPv4 without a VLAN tag (IBTA vol. 1, annex A17.3.3); None for any other."""
    ip = bytearray(frame[14:])
    if frame[12:14] != b"\x08\x00" or ip[9] != 17 or ip[22:24] != struct.pack("!H", 4791):
        return None
    ip = ip[:struct.unpack_from("!H", ip, 2)[0]]
    for masked in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, checksums of IP and UDP, the BTH's congestion bits
        ip[masked] = 0xff
    return zlib.crc32(b"\xff" * 8 + ip[:-4]) == struct.unpack("<I", ip[-4:])[0]


class Capturing(harness.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.directory / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}

    def daemon(self, *args, eal_args=None):
        program = self.start([UROCED, *(eal() if eal_args is None else eal_args), "--", "--demo", "--socket", self.socket, *args])
        program.wait_for("serving uroce0", 20)
        return program

    def capture(self, *args):
        file = self.directory / f"{time.monotonic_ns()}.pcapng"
        program = self.start([UROCE, "capture", "-w", file, "--socket", self.socket, *args])
        program.wait_for("capturing on", 20)
        program.file = file
        return program

    def check(self, file):
        """Nothing malformed, and every ICRC right; the frames' number."""
        self.assertEqual(lines(file, "_ws.malformed || _ws.expert.severity == error"), [])
        verdicts = [icrc_is_right(frame) for frame in frames(file)]
        self.assertNotIn(False, verdicts)
        return verdicts.count(True)


@unittest.skipUnless(TSHARK, "tshark is not installed")
class UroceCapture(Capturing):
    def traffic(self):
        """Verified traffic both ways, for a while."""
        folder = self.directory / f"pair-{time.monotonic_ns()}"
        folder.mkdir()
        pair = self.start([PAIR, folder], env=self.env)
        harness.wait_for_rounds(pair, folder)
        (folder / "stop").touch()
        self.finish(pair, 60)

    def test_both_directions_until_interrupted(self):
        self.daemon()
        capture = self.capture("--device", "uroce0")
        self.traffic()
        capture.process.send_signal(signal.SIGINT)
        output = self.finish(capture, 20)
        self.assertRegex(output, r"\d+ frames written, \d+ dropped")
        self.assertGreater(self.check(capture.file), 100)
        directions = set(lines(capture.file, "infiniband", "frame.packet_flags_direction"))
        self.assertEqual(len(directions), 2, directions)

    def test_the_daemon_is_killed(self):
        """Its rings stay mapped, and would be read for ever. The file has the frames until then."""
        daemon = self.daemon()
        capture = self.capture("--device", "uroce0")
        trace = self.start([UROCE, "trace", "--qp", "1", "--device", "uroce1", "--socket", self.socket])
        trace.wait_for("tracing", 20)
        self.traffic()
        daemon.kill()
        self.assertIn("the uroce daemon has ended, and the capture of uroce0 with it", self.finish(capture, 30, 1))
        self.assertIn("the uroce daemon has ended, and the capture of uroce1 with it", self.finish(trace, 30, 1))
        self.assertGreater(self.check(capture.file), 100)

    def test_count_and_standard_output(self):
        self.daemon()
        file = self.directory / "piped.pcapng"
        with file.open("wb") as out:
            capture = subprocess.Popen([str(UROCE), "capture", "-w", "-", "--socket", str(self.socket), "--device", "uroce1",
                                        "--count", "10"], stdout=out, stderr=subprocess.PIPE, text=True)
        self.addCleanup(capture.stderr.close)
        self.addCleanup(capture.kill)
        self.assertIn("capturing on", capture.stderr.readline())
        self.traffic()
        self.assertEqual(capture.wait(20 * harness.SLOW), 0)
        self.assertEqual(len(lines(file, "frame")), 10)
        self.check(file)

    def test_a_full_disk(self):
        """/dev/full accepts the file's beginning into the buffer, and no byte beyond it."""
        self.daemon()
        capture = self.start([UROCE, "capture", "-w", "/dev/full", "--device", "uroce0", "--seconds", "600", "--socket", self.socket])
        output = self.finish(capture, 30, 1)
        self.assertIn("cannot write /dev/full to its end: No space left on device", output)

    @unittest.skipUnless(os.geteuid() == 0, "only root may mount a small disk")
    def test_a_disk_that_fills_under_traffic(self):
        self.daemon()
        disk = self.directory / "disk"
        disk.mkdir()
        script = f'mount -t tmpfs -o size=64k tmpfs {disk} && exec "$@"'
        capture = self.start(["unshare", "--mount", "sh", "-c", script, "sh", UROCE, "capture", "-w", disk / "wire.pcapng",
                              "--device", "uroce0", "--seconds", "600", "--socket", self.socket])
        capture.wait_for("capturing on", 20)
        self.traffic()
        self.assertIn("No space left on device", self.finish(capture, 20, 1))

    def test_a_reader_that_has_seen_enough(self):
        self.daemon()
        script = f"'{UROCE}' capture -w - --device uroce0 --seconds 600 --socket '{self.socket}' | head -c 100 >/dev/null; " \
                 "echo code=${PIPESTATUS[0]}"
        reader = self.start(["bash", "-c", script])
        reader.wait_for("capturing on", 20)
        self.traffic()
        self.assertIn("code=0", self.finish(reader, 20))

    def test_one_queue_pair(self):
        self.daemon()
        folders = [self.directory / name for name in ("one", "two")]
        pairs = []
        for folder in folders:
            folder.mkdir()
            pairs.append(self.start([PAIR, folder], env=self.env))
        limit = time.monotonic() + 20 * harness.SLOW
        ready = []
        while len(ready) < 2 and time.monotonic() < limit:
            shown = self.start([UROCE, "show", "qp", "uroce0", "--json", "--socket", self.socket])
            rows = harness.loads(self.finish(shown, 20))
            ready = [row for row in rows if row["state"] == "RTS"]
        number, peer = (int(ready[0][key], 16) for key in ("qpn", "dest_qpn"))
        capture = self.capture("--device", "uroce0", "--qp", hex(number), "--count", "200")
        self.finish(capture, 30)
        for folder in folders:
            (folder / "stop").touch()
        for pair in pairs:
            self.finish(pair, 60)
        self.check(capture.file)
        seen = {int(text, 16) for text in lines(capture.file, "frame", "infiniband.bth.destqp")}
        self.assertEqual(seen, {number, peer})

    def test_seconds_one_at_a_time_and_bad_words(self):
        self.daemon()
        capture = self.capture("--device", "uroce0")
        again = self.start([UROCE, "capture", "-w", "/dev/null", "--device", "uroce0", "--socket", self.socket])
        self.assertIn("another capture is running", self.finish(again, 20, 1))
        capture.process.send_signal(signal.SIGINT)
        self.finish(capture, 20)
        self.finish(self.capture("--device", "uroce0", "--seconds", "0.1"), 20)
        several = self.start([UROCE, "capture", "-w", "/dev/null", "--socket", self.socket])
        self.assertIn("several devices", self.finish(several, 20, 1))
        unknown = self.start([UROCE, "capture", "-w", "/dev/null", "--device", "uroce9", "--socket", self.socket])
        self.assertIn("unknown device 'uroce9'", self.finish(unknown, 20, 1))
        self.finish(self.start([UROCE, "capture"]), 20, 2)

    @unittest.skipUnless(os.geteuid() == 0, "another user is needed, which only root can become")
    def test_is_not_for_everybody(self):
        self.daemon()
        os.chmod(self.directory, 0o755)
        other = self.start(["setpriv", "--reuid=65534", "--clear-groups", UROCE, "capture", "-w", "/dev/null", "--device",
                            "uroce0", "--socket", self.socket])
        self.assertIn("for root and the daemon's own user, not for user 65534", self.finish(other, 20, 1))

    def test_a_reader_that_dies_ends_its_capture(self):
        """The daemon notices it a moment later, and the next reader waits for that."""
        self.daemon()
        for _ in range(5):
            self.capture("--device", "uroce0").kill()
        self.finish(self.capture("--device", "uroce0", "--seconds", "0.1"), 20)


if __name__ == "__main__":
    harness.main()
