#!/usr/bin/env python3
"""A client is killed while engines stand still for longer than the daemon waits for them, as where a host takes its virtual
machine's cores away. Nothing of the client is left once they go on."""

import os
import time
import unittest

import harness
import test_clients
import test_privilege
import verbs

STANDS_S = 6  # the daemon waits for 5 s


@unittest.skipUnless(os.geteuid() == 0, "only root may stop a thread of the daemon")
class StandingEngine(test_clients.Case):
    def start_daemon(self):
        daemon = self.start([verbs.UROCED, *test_privilege.engines(2), "--", "--demo", "--idle", "busy", "--socket", self.socket])
        daemon.wait_for("serving uroce0", 30)
        return daemon

    def charged(self):
        """Of each user, what it holds."""
        return {(row["uid"], name): count["used"] for row in self.uroce("show", "user") for name, count in row["budgets"].items()}

    def pair(self):
        folder = self.folder / f"pair-{time.monotonic_ns()}"
        folder.mkdir()
        pair = self.client("pair", folder)
        pair.wait_for("running", 60)
        return pair, folder

    def test_what_a_killed_client_had_is_released(self):
        # The C library keeps memory that a first client needed.
        pair, folder = self.pair()
        (folder / "stop").touch()
        self.finish(pair, 60)
        self.wait_for_survivors(0)
        before, charged = self.resources(), self.charged()
        pair, _ = self.pair()
        self.assertNotEqual(self.charged(), charged)
        with harness.standing(*test_privilege.workers(self.daemon)):
            pair.kill()
            began = time.monotonic()
            self.daemon.wait_for("because an engine does not answer; they are released when it does", 20)
            while time.monotonic() < began + STANDS_S:
                self.assertNotIn("its engines answer again", self.daemon.output)
                self.assertGreater(self.resources()["maps"], before["maps"])
                time.sleep(0.1)
        self.daemon.wait_for("its engines answer again; what programs left is released", 20)
        self.wait_for_survivors(0)
        self.assert_returns_to(before, maps=4)
        self.assertEqual(self.charged(), charged)
        pair, folder = self.pair()
        (folder / "stop").touch()
        self.finish(pair, 60)


if __name__ == "__main__":
    harness.main()
