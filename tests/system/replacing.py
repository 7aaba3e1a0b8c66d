"""A daemon on a veth pair and its successors (`uroced --replace`): what the tests of restarts share."""

import os
import socket
import statistics
import struct

import veth
from harness import eal
from speaker import Speaker, text

HANDED_OVER = r"handed over to process {}: frozen (\d+) ms, (\d+) queue pairs, (\d+) clients refused"
TAKE_OVER = 45
BELONGINGS, READY, ESTATE, BEQUEATHED, IMPORTED, GO, FAILED = range(1, 8)
MAX_QP, MAX_MR = 16384, 65536


def summary(frozen):
    """Of the milliseconds that each restart took."""
    return {"restarts": len(frozen), "frozen_ms": {"median": statistics.median(frozen), "least": min(frozen), "most": max(frozen)}}


class Successor(Speaker):
    """A successor whose steps a test chooses."""

    def take_over(self, mac, engines=1, mtu=1500, max_qp=MAX_QP):
        facts = text(b"uroce0") + text(b"d0") + mac + struct.pack("<IIIII", mtu, 0, engines, max_qp, MAX_MR)
        return self.call(TAKE_OVER, text(b"test") + struct.pack("<I", 1) + facts)

    def say(self, step):
        """A step has no content here. A READY without one is that of a release that reads version 1 of the estate."""
        self.socket.send(struct.pack("<HiI", step, 0, 0))

    def hear(self):
        """The step, its error and text, and what follows; None where the daemon has hung up."""
        packet = self.packet()
        if packet is None:
            return None
        data, fds = packet
        step, error, length = struct.unpack_from("<HiI", data)
        return step, error, data[10:10 + length].decode(), fds

    def rows(self):
        """The rows of the estate, which the next step brings as a file."""
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 250)
        step, error, length = struct.unpack_from("<HiI", data)
        assert step == ESTATE, (step, error, data[10:10 + length])
        for fd in fds[1:]:
            os.close(fd)
        with os.fdopen(fds[0], "rb") as file:
            file.seek(0)
            return file.read()


class Case(veth.Case):
    def setUp(self):
        super().setUp()
        self.names = self.spaces(1500)
        self.frozen, self.queue_pairs = [], set()  # of each restart, and of all

    def mac(self):
        return bytes.fromhex(veth.link_of(self.names[0])["address"].replace(":", ""))

    def launch_successor(self, daemon, *args, eal_args=None, before=(), interface="d0", uroced=veth.UROCED):
        one = self.start([*before, uroced, *(eal_args or eal()), "--", "--interface", interface, "--socket", daemon.socket,
                          "--user", "", "--replace", *args], daemon.space)
        one.space, one.socket = daemon.space, daemon.socket
        return one

    def replace(self, daemon, *args, **kw):
        """A successor that has taken over."""
        after = self.launch_successor(daemon, *args, **kw)
        after.wait_for("serving uroce0", 20)
        self.finish(daemon, 20)
        self.assertRegex(daemon.output, HANDED_OVER.format(after.process.pid))
        self.assertIn(f"took over from process {daemon.process.pid}", after.output)
        return after
