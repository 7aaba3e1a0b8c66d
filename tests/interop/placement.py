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


def sealed_as_rxe(frame):
    """The frame with the ICRC that rxe expects of a FLUSH: it takes the headers for payload, too, and counts them twice."""
    covered = bytearray(frame[IP:-4])
    for at in (1, 8, 10, 11, UDP - IP + 6, UDP - IP + 7, BTH - IP + 4):
        covered[at] = 0xFF
    return frame[:-4] + zlib.crc32(b"\xff" * 8 + covered + frame[BTH:-4]).to_bytes(4, "little")


class Resealed:
    """Sends each FLUSH that leaves on the wire once more, with rxe's ICRC, until the end of the block."""

    def __init__(self, wire):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((wire, 0))
        self.socket.settimeout(0.1)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.is_set():
            try:
                frame, source = self.socket.recvfrom(65536)
            except socket.timeout:
                continue
            if source[2] == socket.PACKET_OUTGOING and frame[12:14] == b"\x08\x00" and frame[BTH : BTH + 1] == bytes((FLUSH,)):
                self.socket.send(sealed_as_rxe(frame))

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *exception):
        self.ended.set()
        self.thread.join()
        self.socket.close()


class Placement(interop.Case):
    def need(self):
        if guests.linux() < NEEDS:
            self.skipTest("the guest's rxe has neither ATOMIC WRITE nor FLUSH; those of Linux 6.2 and later have")

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
        """In the other direction Debian's rxe provider (rdma-core 44) has no call to ask for it."""
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
