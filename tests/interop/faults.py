"""Frames lost, repeated and reordered between uroce and rxe: both recover, every byte arrives, no atomic runs twice."""

import os
import time

import guest as guests
import interop

SEED = int(os.environ.get("UROCE_SEED", "1"))
BATCHES = 8
MTU = 1024
FAULTS = {"lost": {"lose": 0.03}, "repeated": {"repeat": 0.1}, "reordered": {"delay": 0.05},
          "all": {"lose": 0.02, "repeat": 0.05, "delay": 0.03}}
# From this version of Linux on, an ACK that arrives late, between two responses to a READ, ends rxe's queue pair (README.md).
LATE_ACK_ENDS = (6, 2)
# Operation and length, in the order in which they are posted.
BATCH = (("SEND", 3000), ("WRITE", 9000), ("FETCH_ADD", 8), ("READ", 7000), ("WRITE_IMM", 1025), ("SEND_IMM", 1), ("READ", 1024))


class Faults(interop.Case):
    """A method per fault and direction; see `add_cases`."""

    wire = 2

    def run_case(self, fault, requester, responder):
        a, b = self.pair(requester, responder, "RC", MTU, timeout=16)
        slots = [(self.region(requester, length + 64, "write"), self.region(responder, length + 64, "read", "write", "atomic"))
                 for _, length in BATCH]
        faults = dict(FAULTS[fault])
        if "delay" in faults and requester.name == "rxe" and guests.linux() >= LATE_ACK_ENDS:
            faults["of"] = "wire2"  # uroce's frames arrive in their order.
        begin = time.monotonic()
        self.rig.set_faults(seed=SEED, **faults)
        try:
            for batch in range(BATCHES):
                self.run_batch(a, b, slots, batch)
        finally:
            done = self.rig.set_faults()
        interop.record("faults", fault, requester.name, done, round(time.monotonic() - begin, 2))
        self.assertGreater(sum(done.values()), 0, "nothing was lost, repeated or reordered")
        # And nothing is left behind: the next message is as on a quiet wire.
        self.run_batch(a, b, slots, BATCHES)

    def run_batch(self, a, b, slots, batch):
        receives = 0
        for number, ((op, length), (source, sink)) in enumerate(zip(BATCH, slots)):
            seed = 1000 * batch + number
            (sink if op == "READ" else source).fill(seed, 0, length)
            if op == "FETCH_ADD":
                sink.word(0, set=batch)
            if "IMM" in op or op == "SEND":
                b.recv(sink, length, wr_id=number)
                receives += 1
        for number, ((op, length), (source, sink)) in enumerate(zip(BATCH, slots)):
            a.post(op, source, length, 0, sink, wr_id=number, compare_add=7, imm=number)
        self.assertEqual([(c["wr_id"], c["status"]) for c in a.sent(len(BATCH), seconds=60)],
                         [(number, "success") for number in range(len(BATCH))], f"seed {SEED}, batch {batch}")
        got = b.received(receives)
        self.assertEqual([c["status"] for c in got], ["success"] * receives, f"seed {SEED}, batch {batch}")
        for number, ((op, length), (source, sink)) in enumerate(zip(BATCH, slots)):
            seed = 1000 * batch + number
            if op == "FETCH_ADD":
                self.assertEqual((source.word(0), sink.word(0)), (batch, batch + 7))
                continue
            for region in (source, sink):
                self.assertEqual(region.wrong(seed, 0, length), {}, f"{op} in batch {batch}, seed {SEED}")


def add_cases():
    for fault in FAULTS:
        for direction in interop.DIRECTIONS:
            def case(self, fault=fault, direction=direction):
                self.run_case(fault, *self.sides(direction))
            setattr(Faults, f"test_{fault}_{direction}", case)


add_cases()
