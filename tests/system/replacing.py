"""A daemon on a veth pair and its successors (`uroced --replace`): what the tests of restarts share."""

import os
import re
import statistics

import veth
from harness import eal

HANDED_OVER = r"handed over to process {}: frozen (\d+) ms, (\d+) queue pairs, (\d+) clients refused"


def summary(frozen):
    """Of the milliseconds that each restart took."""
    return {"restarts": len(frozen), "frozen_ms": {"median": statistics.median(frozen), "least": min(frozen), "most": max(frozen)}}


class Case(veth.Case):
    def setUp(self):
        super().setUp()
        self.names = self.spaces(1500)

    def mac(self):
        return bytes.fromhex(veth.link_of(self.names[0])["address"].replace(":", ""))

    def launch_successor(self, daemon, *args, eal_args=None, before=(), interface="d0"):
        one = self.start([*before, veth.UROCED, *(eal_args or eal()), "--", "--interface", interface, "--socket", daemon.socket,
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
