#!/usr/bin/env python3
"""Many rdma_cm connections through the daemon: made and ended again and again by two long-lived programs, after which
nothing is left in any of the three processes, and ten thousand open at once.

UROCE_CONNECTIONS=100000 makes so many in a row, instead of 2000; config/test.sh --long does."""

import os
import pathlib
import re
import sys
import time

import harness
import verbs

sys.path.insert(0, str(harness.SOURCE / "config"))
import connections  # noqa: E402

IN_A_ROW = int(os.environ.get("UROCE_CONNECTIONS", "2000"))
MANY = 10000


def holds(pid):
    """Of a process: resident KiB, descriptors, mappings and threads."""
    proc = pathlib.Path("/proc") / str(pid)
    status = dict(re.findall(r"(\w+):\s+(\d+)", (proc / "status").read_text()))
    return {"kib": int(status["VmRSS"]) + int(status.get("HugetlbPages", 0)), "fds": len(os.listdir(proc / "fd")),
            "maps": len((proc / "maps").read_text().splitlines()), "threads": int(status["Threads"])}


class Connections(verbs.Case):
    def setUp(self):
        super().setUp()
        if not (harness.BUILD / "tests" / "system" / "clients" / "client_connections").exists():
            self.skipTest("librdmacm-dev was not there when this was built; config/packages.txt names it")
        self.sides = connections.Sides([verbs.RUN], harness.BUILD, self.socket)
        self.addCleanup(self.sides.__exit__)

    def tearDown(self):
        self.sides.__exit__()
        super().tearDown()

    def held(self):
        processes = {"daemon": self.daemon.process.pid, "server": self.sides.server.pid(),
                     "client": self.sides.client.pid()}
        return {name: holds(pid) for name, pid in processes.items()}

    def objects(self):
        """How many of each kind the daemon has."""
        counts = {}
        for kind in ("qp", "cq", "mr"):
            command = [harness.BUILD / "apps" / "uroce" / "uroce", "show", kind, "--json", "--socket", self.socket]
            counts[kind] = len(harness.loads(self.finish(self.start(command), 30)))
        return counts

    def settled(self):
        """The server hears of the last end after the client."""
        self.sides.server.ask("count", 0)

    def assert_returns(self, before, kib, chunks=0):
        """A while later. Each program that asks the daemon is a client, and has a thread there, until a moment after its end."""
        limits = {"fds": chunks, "threads": 0, "maps": 48, "kib": kib}
        over = []
        for _ in range(int(300 * harness.SLOW)):
            now = self.held()
            over = [f"{name}: {what}: {now[name][what]}, {was[what]} before; at most {more} more are allowed"
                    for name, was in before.items() for what, more in limits.items() if now[name][what] > was[what] + more]
            if not over:
                break
            time.sleep(0.1)
        self.assertEqual(over, [])

    def test_one_after_the_other(self):
        """A leak of some bytes for each connection becomes megabytes with a hundred thousand."""
        self.sides.client.ask("cycle", 500, 64)
        self.settled()
        before, objects = self.held(), self.objects()
        start = time.monotonic()
        for _ in range(0, IN_A_ROW, 1000):
            self.sides.client.ask("cycle", 1000, 64)
        self.settled()
        took = time.monotonic() - start
        print(f"# {IN_A_ROW} connections made and ended in {took:.1f} s; before {before}, after {self.held()}")
        self.assertEqual(self.objects(), objects)
        self.assert_returns(before, kib=4096)

    def test_ten_thousand_at_once(self):
        self.sides.client.ask("cycle", 500, 64)
        self.settled()
        before, objects = self.held(), self.objects()
        prepared = self.sides.client.ask("prepare", MANY)
        opened = self.sides.client.ask("connect", MANY)
        self.sides.server.ask("count", MANY)
        self.assertEqual(opened["open"], MANY)
        self.assertEqual(self.objects()["qp"], 2 * MANY + objects["qp"])
        closed = self.sides.client.ask("close")
        self.settled()
        print(f"# {MANY} connections: {prepared}, {opened}, {closed}")
        # A message whose answer is late comes once more, and its receiver sees that.
        self.assertLessEqual(self.counter("cm_resent"), self.counter("cm_duplicates"), "messages were lost in one daemon")
        self.assertEqual(self.objects(), objects)
        # Queue memory stays with its client in a few large pieces, each a descriptor of the daemon, and the C library
        # keeps of the heap what lies below something in use.
        self.assert_returns(before, kib=65536, chunks=4)


if __name__ == "__main__":
    harness.main()
