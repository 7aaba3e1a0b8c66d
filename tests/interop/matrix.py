"""Every operation between uroce and rxe, in each role, for path MTUs and lengths around them; every byte is compared."""

import itertools
import time

import harness
import interop

MTUS = (1024, 4096)
MIB = 1 << 20
GUARD = 64  # bytes before and behind that nobody may write
GRH = 40
OPERATIONS = (("RC", "SEND"), ("RC", "SEND_IMM"), ("RC", "WRITE"), ("RC", "WRITE_IMM"), ("RC", "READ"), ("RC", "FETCH_ADD"),
              ("RC", "CMP_SWAP"), ("UC", "SEND"), ("UC", "SEND_IMM"), ("UC", "WRITE"), ("UC", "WRITE_IMM"), ("UD", "SEND"),
              ("UD", "SEND_IMM"))


def lengths(kind, op, mtu):
    if op in ("FETCH_ADD", "CMP_SWAP"):
        return (8,)
    return (1, mtu - 1, mtu) if kind == "UD" else (1, mtu - 1, mtu + 1, MIB)


class Transfers(interop.Verbs):
    """Operations between two peers, compared byte by byte."""

    def run_operation(self, a, b, op, lengths_of_it, done=lambda length: None):
        for number, length in enumerate(lengths_of_it, 1):
            with self.subTest(op=op, length=length):
                if op in ("FETCH_ADD", "CMP_SWAP"):
                    self.atomic(a, b, op)
                else:
                    self.transfer(a, b, op, length, number)
                done(length)

    def transfer(self, a, b, op, length, seed):
        extra = GRH if a.kind == "UD" else 0
        source, sink = (self.region(side.peer, length + extra + 2 * GUARD, "write", "read") for side in (a, b))
        if op == "READ":
            sink.fill(seed, GUARD, length)
        else:
            source.fill(seed, GUARD, length)
        receives = op not in ("WRITE", "READ")
        imm = 0xCAFE0000 + seed if op.endswith("IMM") else None
        if receives:
            b.recv(sink, length + extra if op.startswith("SEND") else 0, GUARD, wr_id=seed)
        a.post(op, source, length, GUARD, sink if "WRITE" in op or op == "READ" else None, GUARD, wr_id=9,
               **({} if imm is None else {"imm": imm}))
        self.assert_success(a.sent(seconds=20), wr_id=9)
        if receives:
            got = self.assert_success(b.received(seconds=20), wr_id=seed, length=length + extra)
            self.assertEqual(got.get("imm"), imm)
            if a.kind == "UD":
                self.assertEqual((got["grh"], got["src_qp"]), (True, a.qpn))
            elif b.peer.name == "uroce":  # rxe says it of all receives but RC's
                self.assertNotIn("grh", got)
        elif a.kind == "UC":
            self.wait_for_bytes(sink, seed, length)
        offset = GUARD + extra
        if extra:
            # Other tests check a datagram's first 40 bytes.
            sink.restore(GUARD, extra)
        self.assertEqual(sink.wrong(seed, offset, length), {}, "at the responder")
        self.assertEqual(source.wrong(seed, GUARD, length), {}, "at the requester")
        source.close()
        sink.close()

    def atomic(self, a, b, op):
        source, sink = self.region(a.peer, 24), self.region(b.peer, 24, "read", "atomic")
        old, add, swap = 0xFFFFFFFF_FFFFFFF0, 0x1_0000_0021, 0x0123456789ABCDEF
        arguments = {"compare_add": add} if op == "FETCH_ADD" else {"compare_add": old, "swap": swap}
        sink.word(8, set=old)
        a.post(op, source, 8, 8, sink, 8, **arguments)
        self.assert_success(a.sent())
        self.assertEqual(source.word(8), old)
        self.assertEqual(sink.word(8), (old + add) % (1 << 64) if op == "FETCH_ADD" else swap)
        if op == "CMP_SWAP":  # Now the comparison fails: nothing changes, and the old value comes back.
            a.post(op, source, 8, 8, sink, 8, **arguments)
            self.assert_success(a.sent())
            self.assertEqual((source.word(8), sink.word(8)), (swap, swap))
        for region in (source, sink):
            region.restore(8, 8)
            self.assertEqual(region.wrong(0, 0, 0), {}, "beside the word")
            region.close()

    def wait_for_bytes(self, sink, seed, length):
        """A UC WRITE tells nobody that it has arrived."""
        limit = time.monotonic() + 30 * harness.SLOW
        while sink.wrong(seed, GUARD, length) and time.monotonic() < limit:
            time.sleep(0.01)


class Matrix(Transfers, interop.Case):
    """A method per operation, MTU and direction; see `add_cases`."""

    def run_case(self, kind, op, mtu, requester, responder):
        a, b = self.pair(requester, responder, kind, mtu)
        self.run_operation(a, b, op, lengths(kind, op, mtu), lambda length: interop.record(
            "matrix", f"{kind} {op}", mtu, requester.name, responder.name, length))


class Interface(Transfers, interop.Case):
    """The same by uroce's own port on kernel interfaces, whose super-frames the kernel cuts up for the tap."""

    wire = 3

    def run_case(self, kind, op, mtu, requester, responder):
        a, b = self.pair(requester, responder, kind, mtu)
        self.run_operation(a, b, op, lengths(kind, op, mtu))


class OnDemand(Transfers, interop.Case):
    """uroce's regions are paged in on demand. rxe has none before Linux 6.15, and those of 7.3 spoil memory (README.md)."""

    def region(self, peer, length, *access):
        return super().region(peer, length, *access, *(("on_demand",) if peer is self.host else ()))

    def transfer_all(self, direction):
        for op in ("SEND", "WRITE", "READ", "FETCH_ADD", "CMP_SWAP"):
            a, b = self.pair(*self.sides(direction), "RC", MTUS[0])
            self.run_operation(a, b, op, (8,) if op in ("FETCH_ADD", "CMP_SWAP") else (1, MTUS[0] + 1, 200000))

    def test_uroce_to_rxe(self):
        self.transfer_all("uroce_to_rxe")

    def test_rxe_to_uroce(self):
        self.transfer_all("rxe_to_uroce")


def add_cases(to):
    for (kind, op), mtu, direction in itertools.product(OPERATIONS, MTUS, interop.DIRECTIONS):
        def case(self, kind=kind, op=op, mtu=mtu, direction=direction):
            self.run_case(kind, op, mtu, *self.sides(direction))
        setattr(to, f"test_{kind}_{op}_{mtu}_{direction}".lower(), case)


add_cases(Matrix)
add_cases(Interface)
