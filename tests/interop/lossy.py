#!/usr/bin/env python3
"""Carries frames between two interfaces, and on request loses, repeats and reorders RoCE frames among them.

lossy.py INTERFACE INTERFACE: each line of its input sets the faults from then on, as JSON with `seed` and the probabilities
`lose`, `repeat` and `delay`; it is answered by a line with what has been done since the line before. Ends with its input.
"""

import json
import pathlib
import random
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from relay import PACKET_OUTGOING, opened  # noqa: E402

ROCE_PORT = (4791).to_bytes(2, "big")
DELAY_FRAMES = 3  # a delayed frame lets so many pass
DELAY_SECONDS = 0.003  # or leaves after this when nothing else comes


def is_roce(frame):
    ipv4 = frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == ROCE_PORT
    return ipv4 or (frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == ROCE_PORT)


class Direction:
    """Frames one way."""

    def __init__(self, to, faults):
        self.to, self.faults = to, faults
        self.late = []  # [frames to let pass, when it leaves at the latest, frame]

    def carry(self, frame):
        faults = self.faults
        if not is_roce(frame) or not faults.active:
            self.to.send(frame)
            return
        if faults.happens("lose"):
            return
        if faults.happens("delay"):
            self.late.append([DELAY_FRAMES, time.monotonic() + DELAY_SECONDS, frame])
            return
        self.to.send(frame)
        if faults.happens("repeat"):
            self.to.send(frame)
        for entry in self.late:
            entry[0] -= 1
        self.release()

    def release(self):
        now = time.monotonic()
        for entry in [e for e in self.late if e[0] <= 0 or e[1] <= now]:
            self.late.remove(entry)
            self.to.send(entry[2])


class Faults:
    KINDS = ("lose", "repeat", "delay")

    def __init__(self):
        self.set({})

    def set(self, wanted):
        self.random = random.Random(wanted.get("seed", 0))
        self.rates = {kind: wanted.get(kind, 0) for kind in self.KINDS}
        self.active = any(self.rates.values())
        self.done = dict.fromkeys(self.KINDS, 0)

    def happens(self, kind):
        yes = self.random.random() < self.rates[kind]
        self.done[kind] += yes
        return yes


def main():
    sockets = [opened(name) for name in sys.argv[1:3]]
    faults = Faults()
    directions = {sockets[0]: Direction(sockets[1], faults), sockets[1]: Direction(sockets[0], faults)}
    print("relaying", flush=True)
    while True:
        wait = DELAY_SECONDS / 2 if any(d.late for d in directions.values()) else None
        for source in select.select([*sockets, sys.stdin], [], [], wait)[0]:
            if source is sys.stdin:
                line = sys.stdin.readline()
                if not line:
                    return
                print(json.dumps(faults.done), flush=True)
                faults.set(json.loads(line))
            else:
                frame, address = source.recvfrom(65536)
                if address[2] != PACKET_OUTGOING:
                    directions[source].carry(frame)
        for direction in directions.values():
            direction.release()


if __name__ == "__main__":
    main()
