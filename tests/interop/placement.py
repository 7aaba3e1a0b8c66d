"""ATOMIC WRITE and FLUSH, which rxe has since Linux 6.2. Debian 12's 6.1 does not know their opcodes."""

import socket
import threading
import zlib

import guest as guests
import interop

MTU = 1024
FLUSH = 0x1C
ETH_P_ALL = 3
IP, UDP, BTH = 14, 34, 42  # where they begin in a frame of IPv4
NEEDS = (6, 2)
OPERATIONS = ("WRITE", "ATOMIC_WRITE")
ACCESS = ("local", "write", "read", "atomic", "flush")
VALUE = 0x0123456789ABCDEF


def sealed(frame, as_rxe):
    """The FLUSH with its ICRC; or with that of rxe, which takes the headers for payload, too, and counts them twice."""
    covered = bytearray(frame[IP:-4])
    for at in (1, 8, 10, 11, UDP - IP + 6, UDP - IP + 7, BTH - IP + 4):
        covered[at] = 0xFF
    twice = frame[BTH:-4] if as_rxe else b""
    return frame[:-4] + zlib.crc32(b"\xff" * 8 + covered + twice).to_bytes(4, "little")


class Resealed:
    """Until the end of the block each FLUSH on `wire` goes on once more: uroce's with rxe's ICRC, out of `wire`, and rxe's with the
    right one, out of `to`."""

    def __init__(self, wire, to=None):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((wire, 0))
        self.socket.settimeout(0.1)
        self.of_rxe = to is not None
        self.to = (to or wire, ETH_P_ALL)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.is_set():
            try:
                frame, source = self.socket.recvfrom(65536)
            except socket.timeout:
                continue
            arrives = source[2] != socket.PACKET_OUTGOING
            if arrives == self.of_rxe and frame[12:14] == b"\x08\x00" and frame[BTH : BTH + 1] == bytes((FLUSH,)):
                self.socket.sendto(sealed(frame, not self.of_rxe), self.to)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *exception):
        self.ended.set()
        self.thread.join()
        self.socket.close()


class Case(interop.Case):
    def need(self):
        if guests.linux() < NEEDS:
            self.skipTest("the guest's rxe has neither ATOMIC WRITE nor FLUSH; those of Linux 6.2 and later have")


class Placement(Case):
    def words(self, requester, responder):
        """Many of them, so that max_rd_atomic holds some back. The last one to each word counts."""
        a, b = self.pair(requester, responder, "RC", MTU, operations=OPERATIONS)
        source, sink = self.region(requester, 8), self.region(responder, 256, "write")
        count = 40
        for number in range(count):
            a.post("ATOMIC_WRITE", source, 8, 0, sink, 8 + 8 * (number % 8), value=VALUE + number, wr_id=number)
        sent = a.sent(count, seconds=30)
        self.assertEqual([(c["wr_id"], c["status"]) for c in sent], [(number, "success") for number in range(count)])
        self.assertEqual([sink.word(8 + 8 * n) for n in range(8)], [VALUE + count - 8 + n for n in range(8)])
        sink.restore(8, 64)
        self.assertEqual(sink.wrong(0, 0, 0), {}, "beside the words")
        self.assertEqual((a.state(), b.state()), ("RTS", "RTS"))

    def test_atomic_write_uroce_to_rxe(self):
        self.need()
        self.words(self.host, self.guest)

    def test_atomic_write_rxe_to_uroce(self):
        self.need()
        self.words(self.guest, self.host)

    def refused(self, requester, responder, status, access=("write",), at=0, change_key=0, responder_access=ACCESS[:4]):
        a, b = self.pair(requester, responder, "RC", MTU, operations=OPERATIONS, responder_access=responder_access)
        source, sink = self.region(requester, 8), self.region(responder, 64, *access)
        a.post("ATOMIC_WRITE", source, 8, 0, sink, at, value=VALUE, rkey=sink.rkey ^ change_key)
        self.assertEqual([c["status"] for c in a.sent()], [status])
        self.assertEqual((a.state(), b.state()), ("ERR", "ERR"))
        self.assertEqual(sink.wrong(0, 0, 0), {})

    def test_refused_atomic_writes(self):
        self.need()
        for direction in interop.DIRECTIONS:
            for name, status, how in (
                    ("no right", "remote access error", {"access": ("read",)}),
                    ("bad key", "remote access error", {"change_key": 0x5A}),
                    ("misaligned", "remote invalid request error", {"at": 4}),
                    ("queue pair without writes", "remote invalid request error",
                     {"responder_access": ("local", "read", "atomic")})):
                with self.subTest(direction=direction, error=name):
                    self.refused(*self.sides(direction), status, **how)

    def test_flush_uroce_to_rxe(self):
        self.need()
        a, b = self.pair(self.host, self.guest, "RC", MTU, operations=(*OPERATIONS, "FLUSH"), responder_access=ACCESS, timeout=17)
        source, sink = self.region(self.host, 8), self.region(self.guest, 4096, "write", "flush")
        a.post("ATOMIC_WRITE", source, 8, 0, sink, 8, value=VALUE, wr_id=1)
        a.post("FLUSH", source, 4096, 0, sink, 0, wr_id=2)
        a.post("FLUSH", source, 0, 0, sink, 0, level=1, wr_id=3)
        self.assert_success(a.sent(), wr_id=1)
        self.assertEqual(a.sent(seconds=0.3), [], "rxe has learnt to check the ICRC of a FLUSH; README.md can say so")
        with Resealed("wire1"):
            sent = a.sent(2)
        self.assertEqual([(c["wr_id"], c["status"]) for c in sent], [(2, "success"), (3, "success")])
        self.assertEqual(sink.word(8), VALUE)
        self.assertEqual((a.state(), b.state()), ("RTS", "RTS"))

    def test_flush_that_rxe_refuses(self):
        self.need()
        for access, region, kind, status in (
                (ACCESS[:4], ("write", "flush"), 1, "remote invalid request error"),
                (ACCESS, ("write",), 1, "remote access error"),
                (ACCESS, ("write", "flush"), 2, "remote invalid request error")):
            with self.subTest(access=access, region=region, type=kind):
                a, _ = self.pair(self.host, self.guest, "RC", MTU, operations=("FLUSH",), responder_access=access)
                source, sink = self.region(self.host, 8), self.region(self.guest, 64, *region)
                with Resealed("wire1"):
                    a.post("FLUSH", source, 8, 0, sink, 0, type=kind)
                    self.assertEqual([c["status"] for c in a.sent()], [status])

    def test_an_rxe_without_them_does_not_answer(self):
        """It drops what it does not know: the request fails as if the peer had gone, and the peer's queue pair stays."""
        if guests.linux() >= NEEDS:
            self.skipTest("the guest's rxe has ATOMIC WRITE")
        a, b = self.pair(self.host, self.guest, "RC", MTU, operations=OPERATIONS, timeout=15, retry_cnt=1)
        source, sink = self.region(self.host, 8), self.region(self.guest, 64, "write")
        a.post("ATOMIC_WRITE", source, 8, 0, sink, 0, value=VALUE)
        self.assertEqual([c["status"] for c in a.sent(seconds=20)], ["transport retry counter exceeded"])
        self.assertEqual((a.state(), b.state()), ("ERR", "RTS"))
        self.assertEqual(sink.wrong(0, 0, 0), {})


class FlushOfRxe(Case):
    """rxe asks for FLUSH, on the wire whose relay lets a resealed frame in."""

    wire = 2

    def setUp(self):
        super().setUp()
        self.need()

    def both(self, access=ACCESS, region=("write", "flush"), timeout=20):
        a, b = self.pair(self.guest, self.host, "RC", MTU, operations=OPERATIONS, responder_access=access, timeout=timeout)
        return a, b, self.region(self.guest, 8), self.region(self.host, 4096, *region)

    def test_flush_rxe_to_uroce(self):
        a, b, source, sink = self.both()
        with Resealed("wire2", "far2"):
            a.post("ATOMIC_WRITE", source, 8, 0, sink, 8, value=VALUE, wr_id=1)
            a.post("FLUSH", source, 4096, 0, sink, 0, wr_id=2)
            a.post("FLUSH", source, 0, 0, sink, 0, level=1, wr_id=3)
            sent = a.sent(3)
        self.assertEqual([(c["wr_id"], c["status"]) for c in sent], [(number, "success") for number in (1, 2, 3)])
        self.assertEqual(sink.word(8), VALUE)
        self.assertEqual((a.state(), b.state()), ("RTS", "RTS"))

    def test_flush_with_the_icrc_of_rxe_is_dropped(self):
        a, b, source, sink = self.both(timeout=17)
        a.post("FLUSH", source, 4096, 0, sink, 0)
        self.assertEqual(a.sent(seconds=0.3), [], "rxe has learnt the ICRC of a FLUSH; README.md can say so")
        # rxe repeats it with address 0, which uroce refuses.
        with Resealed("wire2", "far2"):
            self.assertEqual([c["status"] for c in a.sent()], ["remote access error"])
        self.assertEqual((a.state(), b.state()), ("ERR", "ERR"))

    def test_flush_that_uroce_refuses(self):
        for name, how, post, status in (
                ("queue pair without flushes", {"access": ACCESS[:4]}, {}, "remote invalid request error"),
                ("no right", {"region": ("write",)}, {}, "remote access error"),
                ("bad key", {}, {"rkey": 0x7FFFFF00}, "remote access error"),
                ("persistence", {}, {"type": 2}, "remote invalid request error")):
            with self.subTest(error=name):
                a, b, source, sink = self.both(**how)
                with Resealed("wire2", "far2"):
                    a.post("FLUSH", source, 8, 0, sink, 0, **post)
                    self.assertEqual([c["status"] for c in a.sent()], [status])
                self.assertEqual((a.state(), b.state()), ("ERR", "ERR"))
