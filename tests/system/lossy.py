#!/usr/bin/env python3
"""Carries frames between two interfaces, and on request loses, repeats and reorders RoCE frames among them.

lossy.py INTERFACE INTERFACE: each line of its input sets the faults from then on, as JSON with `seed` and the probabilities
`lose`, `repeat` and `delay`, and with `of`, the interface whose arrivals they are for, where they are not for both. The line is
answered by one with what has been done since the line before. Ends with its input.

Of a super-frame each datagram is drawn for. A fault of the first one is a fault of the whole super-frame, one of another datagram
is its own: the super-frame then goes on in parts.
"""

import json
import random
import select
import sys
import time

from super_frames import LONGEST, PACKET_OUTGOING, VNET, SuperFrame, opened

ROCE_PORT = (4791).to_bytes(2, "big")
DELAY_FRAMES = 3  # a delayed frame lets so many pass
DELAY_SECONDS = 0.003  # or leaves after this when nothing else comes


def is_roce(frame):
    ipv4 = frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == ROCE_PORT
    return ipv4 or (frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == ROCE_PORT)


class Direction:
    """Messages of a socket one way: frames or super-frames."""

    def __init__(self, name, to, faults):
        self.name, self.to, self.faults = name, to, faults
        self.late = []  # [messages to let pass, when it leaves at the latest, message]

    def carry(self, message):
        if not self.faults.active_for(self.name) or not is_roce(message[VNET.size:VNET.size + 62]):
            self.to.send(message)
            return
        whole = SuperFrame.of(message)
        fault = self.faults.draw()
        if whole is None or fault is not None:
            self.pass_on(message, fault)
            return
        fates = [None] + [self.faults.draw() for _ in whole.segments[1:]]
        begin = 0
        for number, fate in enumerate(fates):
            if fate is not None:
                if begin < number:
                    self.pass_on(whole.part(begin, number).message(), None)
                self.pass_on(whole.part(number, number + 1).message(), fate)
                begin = number + 1
        if begin == 0:
            self.pass_on(message, None)
        elif begin < len(fates):
            self.pass_on(whole.part(begin, len(fates)).message(), None)

    def pass_on(self, message, fault):
        if fault == "lose":
            return
        if fault == "delay":
            self.late.append([DELAY_FRAMES, time.monotonic() + DELAY_SECONDS, message])
            return
        self.to.send(message)
        if fault == "repeat":
            self.to.send(message)
        for entry in self.late:
            entry[0] -= 1
        self.release()

    def release(self):
        now = time.monotonic()
        for entry in [e for e in self.late if e[0] <= 0 or e[1] <= now]:
            self.late.remove(entry)
            self.to.send(entry[2])


class Faults:
    KINDS = ("lose", "delay", "repeat")

    def __init__(self):
        self.set({})

    def set(self, wanted):
        self.random = random.Random(wanted.get("seed", 0))
        self.rates = {kind: wanted.get(kind, 0) for kind in self.KINDS}
        self.active, self.only = any(self.rates.values()), wanted.get("of")
        self.done = dict.fromkeys(self.KINDS, 0)

    def active_for(self, name):
        return self.active and self.only in (None, name)

    def draw(self):
        """The next frame's fault: one of KINDS, or nothing."""
        for kind in self.KINDS:
            if self.random.random() < self.rates[kind]:
                self.done[kind] += 1
                return kind
        return None


def main():
    names = sys.argv[1:3]
    sockets = [opened(name) for name in names]
    faults = Faults()
    directions = {source: Direction(name, to, faults) for name, source, to in zip(names, sockets, reversed(sockets))}
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
                message, address = source.recvfrom(LONGEST)
                if address[2] != PACKET_OUTGOING:
                    directions[source].carry(message)
        for direction in directions.values():
            direction.release()


if __name__ == "__main__":
    main()
