"""Errors that a peer causes, RNR and its recovery: the status at both ends, and what the connection is good for then.

Each case expects what the IBTA specification says (vol. 1, 9.7.5.2, 9.9.2, 9.9.3, 11.6.2). Where rxe as the responder has it
otherwise, `rxe` says so; README.md has these departures in words.
"""

import dataclasses

import interop
import peers

MTU = 1024
ACCESS = ("write", "read", "atomic")
ALL = ("local", *ACCESS)


@dataclasses.dataclass
class Error:
    """A request that the responder refuses."""

    name: str
    op: str
    status: str  # at the requester
    length: int = 100
    at: int = 0  # offset in the responder's region of 4096 bytes
    change_key: int = 0
    region: tuple = ACCESS  # remote rights of the responder's region
    access: tuple = ALL  # rights of the responder's queue pair
    receive: int = None  # bytes of the receive that stands ready
    receive_lkey: int = None
    receive_status: str = "Work Request Flushed Error"  # at the responder
    rxe: dict = dataclasses.field(default_factory=dict)  # where rxe as the responder departs


REMOTE_ACCESS = "remote access error"
LOCAL_ACCESS = "local access error"
INVALID = "remote invalid request error"
OPERATION = "remote operation error"
LENGTH = "local length error"
FLUSHED = "Work Request Flushed Error"
PROTECTION = "local protection error"
# rxe makes no difference between a receive that is too short and one that it may not write to.
RXE_CANNOT_PLACE = {"status": OPERATION, "receive_status": "local QP operation error"}
ERRORS = (
    Error("bad_rkey_write", "WRITE", REMOTE_ACCESS, change_key=0x5A),
    Error("bad_rkey_write_imm", "WRITE_IMM", REMOTE_ACCESS, change_key=0x5A, receive=0,
          receive_status=LOCAL_ACCESS, rxe={"receive_status": REMOTE_ACCESS}),
    Error("bad_rkey_read", "READ", REMOTE_ACCESS, change_key=0x5A),
    Error("bad_rkey_atomic", "FETCH_ADD", REMOTE_ACCESS, 8, change_key=0x5A),
    Error("no_such_key", "WRITE", REMOTE_ACCESS, change_key=0x7FFFFF00),
    Error("out_of_bounds_write", "WRITE", REMOTE_ACCESS, at=4000),
    Error("out_of_bounds_write_of_many_packets", "WRITE", REMOTE_ACCESS, 4 * MTU + 1),
    Error("out_of_bounds_read", "READ", REMOTE_ACCESS, at=4000),
    Error("out_of_bounds_atomic", "CMP_SWAP", REMOTE_ACCESS, 8, at=4096),
    Error("no_right_write", "WRITE", REMOTE_ACCESS, region=("read", "atomic")),
    Error("no_right_read", "READ", REMOTE_ACCESS, region=("write", "atomic")),
    Error("no_right_atomic", "FETCH_ADD", REMOTE_ACCESS, 8, region=("write", "read")),
    Error("queue_pair_without_write", "WRITE", INVALID, access=("local", "read")),
    Error("queue_pair_without_read", "READ", INVALID, access=("local", "write")),
    Error("queue_pair_without_atomic", "FETCH_ADD", INVALID, 8, access=("local", "write", "read")),
    Error("misaligned_atomic", "FETCH_ADD", INVALID, 8, at=4),
    Error("longer_than_the_receive", "SEND", INVALID, receive=99, receive_status=LENGTH, rxe=RXE_CANNOT_PLACE),
    Error("much_longer_than_the_receive", "SEND", INVALID, 5 * MTU, receive=2 * MTU, receive_status=LENGTH,
          rxe=RXE_CANNOT_PLACE),
    Error("receive_with_bad_lkey", "SEND", OPERATION, receive=100, receive_lkey=0x12345678, receive_status=PROTECTION,
          rxe=RXE_CANNOT_PLACE),
)


class Errors(interop.Case):
    """A method per error and direction; see `add_cases`."""

    def run_case(self, error, requester, responder):
        expected = dataclasses.replace(error, **(error.rxe if responder.name == "rxe" else {}))
        a, b = self.pair(requester, responder, "RC", MTU, responder_access=error.access)
        responder.events()
        source, sink = self.region(requester, 8192, *ACCESS), self.region(responder, 4096, *error.region)
        receives = error.receive is not None
        if receives:
            b.recv(sink, error.receive, wr_id=5, **({} if error.receive_lkey is None else {"lkey": error.receive_lkey}))
        request = {"wr_id": 1, "rkey": sink.rkey ^ error.change_key, "compare_add": 1}
        if error.name == "misaligned_atomic" and requester.name == "rxe":
            with self.assertRaises(peers.Refused):  # It does not even try.
                a.post(error.op, source, error.length, 0, sink, error.at, **request)
            return
        a.post(error.op, source, error.length, 0, sink, error.at, **request)
        a.post("SEND", source, 1, wr_id=2)
        sent = a.sent(2)
        self.assertEqual([c["wr_id"] for c in sent], [1, 2], sent)
        self.assertEqual([c["status"] for c in sent], [expected.status, FLUSHED])
        self.assertEqual(a.state(), "ERR")
        received = b.received(1, seconds=30) if receives else []
        if receives:
            self.assertEqual([c["status"] for c in received], [expected.receive_status])
        self.assertEqual(b.state(), "ERR")
        events = responder.events(30 if responder.name == "uroce" else 0.1)
        if responder.name == "uroce":
            wanted = "invalid request" if error.status == INVALID else "local access violation"
            if error.status == OPERATION or error.receive_status == LENGTH:
                wanted = "error"
            self.assertTrue(any(wanted in event for event in events), events)
        # Nothing was written but what had been allowed before the error was seen.
        if not receives and error.length <= MTU:
            self.assertEqual(sink.wrong(0, 0, 0), {})
        interop.record("errors", error.name, error.op, responder.name, sent[0]["status"],
                       received[0]["status"] if received else "", events)


def add_cases():
    for error in ERRORS:
        for direction in interop.DIRECTIONS:
            def case(self, error=error, direction=direction):
                self.run_case(error, *self.sides(direction))
            setattr(Errors, f"test_{error.name}_{direction}", case)


add_cases()


class Unanswered(interop.Case):
    """Retries, with and without an end."""

    def each(self, check):
        for direction in interop.DIRECTIONS:
            with self.subTest(direction=direction):
                check(*self.sides(direction))
                interop.record("unanswered", self.id().rpartition(".")[2], direction)

    def test_rnr_is_waited_for(self):
        def check(requester, responder):
            for op in ("SEND", "WRITE_IMM"):
                a, b = self.pair(requester, responder, "RC", MTU, min_rnr_timer=14)
                source, sink = self.region(requester, 5000), self.region(responder, 5000, "write")
                source.fill(3, 0, 5000)
                a.post(op, source, 5000, 0, sink, wr_id=1)
                self.assertEqual(a.sent(1, seconds=0.2), [])
                b.recv(sink, 5000, wr_id=2)
                self.assert_success(b.received(), wr_id=2, length=5000)
                self.assert_success(a.sent(), wr_id=1)
                self.assertEqual(sink.wrong(3, 0, 5000), {})

        self.each(check)

    def test_rnr_again_and_again(self):
        """One receive at a time for messages that all wait in the send queue."""
        def check(requester, responder):
            a, b = self.pair(requester, responder, "RC", MTU, min_rnr_timer=6)
            source, sink = self.region(requester, 2000), self.region(responder, 2000)
            for number in range(10):
                a.post("SEND", source, 2000, wr_id=number)
            for number in range(10):
                b.recv(sink, 2000, wr_id=number)
                self.assert_success(b.received(), wr_id=number, length=2000)
            self.assertEqual([c["status"] for c in a.sent(10)], ["success"] * 10)

        self.each(check)

    def test_rnr_retries_used_up(self):
        def check(requester, responder):
            a, b = self.pair(requester, responder, "RC", MTU, rnr_retry=2, min_rnr_timer=10)
            source = self.region(requester, 100)
            a.post("SEND", source, 100, wr_id=1)
            completions = a.sent()
            self.assertEqual([c["status"] for c in completions], ["RNR retry counter exceeded"])
            self.assertEqual((a.state(), b.state()), ("ERR", "RTS"))

        self.each(check)

    def test_nobody_there(self):
        def check(requester, responder):
            a, b = self.pair(requester, responder, "RC", MTU, timeout=12, retry_cnt=2)
            b.close()
            source = self.region(requester, 100)
            a.post("SEND", source, 100, wr_id=1)
            completions = a.sent(seconds=30)
            self.assertEqual([c["status"] for c in completions], ["transport retry counter exceeded"])
            self.assertEqual(a.state(), "ERR")

        self.each(check)


class Dropped(interop.Case):
    """Unreliable services drop these; the next message arrives."""

    def each(self, check):
        for direction in interop.DIRECTIONS:
            with self.subTest(direction=direction):
                check(*self.sides(direction))
                interop.record("dropped", self.id().rpartition(".")[2], direction)

    def arrives(self, a, b):
        source, sink = self.region(a.peer, 200), self.region(b.peer, 200)
        source.fill(4, 0, 50)
        b.recv(sink, 200, wr_id=8)
        a.post("SEND", source, 50, wr_id=9)
        self.assertEqual([(c["wr_id"], c["status"]) for c in a.sent()], [(9, "success")])
        self.assertEqual([(c["wr_id"], c["status"]) for c in b.received()], [(8, "success")])

    def test_uc_write_with_bad_rkey(self):
        def check(requester, responder):
            a, b = self.pair(requester, responder, "UC", MTU)
            source, sink = self.region(requester, 4000), self.region(responder, 4000, "write")
            a.post("WRITE", source, 4000, 0, sink, 0, wr_id=1, rkey=sink.rkey ^ 0x5A)
            self.assert_success(a.sent(), wr_id=1)
            self.arrives(a, b)
            self.assertEqual(sink.wrong(0, 0, 0), {})

        self.each(check)

    def test_ud_with_wrong_qkey(self):
        def check(requester, responder):
            a, b = self.pair(requester, responder, "UD", MTU)
            source, sink = self.region(requester, 100), self.region(responder, 200)
            b.recv(sink, 200, wr_id=7)
            b.qkey, right = b.qkey + 1, b.qkey
            a.post("SEND", source, 100, wr_id=1)
            self.assert_success(a.sent(), wr_id=1)
            self.assertEqual(b.received(1, seconds=0.2), [])
            b.qkey = right
            a.post("SEND", source, 100, wr_id=2)
            self.assert_success(b.received(), wr_id=7)

        self.each(check)
