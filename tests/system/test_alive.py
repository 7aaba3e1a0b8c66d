#!/usr/bin/env python3
"""Queue pairs outlive their daemon: verified traffic goes on while `uroced --replace` takes over again and again.

UROCE_RESTARTS=N makes N restarts in each case. Each case prints what it saw as a line of JSON, which bench/run_restart reads."""

import json
import os
import pathlib
import re
import signal
import unittest

import harness
import replacing
from harness import BUILD
from veth import by

RESTARTS = int(os.environ.get("UROCE_RESTARTS", "3"))
RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
CLIENT = BUILD / "tests" / "system" / "clients" / "client_alive"
LANES = "rc=3,srq=2,uc=1,ud=1"
LOSS = {"seed": 7, "lose": 0.01, "repeat": 0, "delay": 0}


def holdings(daemon):
    """Descriptors and mappings of a daemon, and its memory in KiB."""
    process = pathlib.Path(f"/proc/{daemon.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {"descriptors": len(list((process / "fd").iterdir())), "mappings": len((process / "maps").read_text().splitlines()),
            "memory": int(status["RssAnon"].split()[0])}


class Case(replacing.Case):
    def setUp(self):
        super().setUp()
        self.frozen, self.queue_pairs = [], set()

    def successor_of(self, daemon):
        after = self.replace(daemon)
        frozen, queue_pairs, refused = map(int, re.search(replacing.HANDED_OVER.format(r"\d+"), daemon.output).groups())
        self.frozen.append(frozen)
        self.queue_pairs.add(queue_pairs)
        self.assertEqual(refused, 0, daemon.output)
        return after

    def tell(self, **more):
        frozen = sorted(self.frozen)
        print("# " + json.dumps({"case": self._testMethodName.removeprefix("test_"), "restarts": len(frozen),
                                 "queue_pairs": max(self.queue_pairs), "frozen_ms": frozen, **more}))


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Benchmarks(Case):
    """One side's daemon is replaced under the bundled benchmarks."""

    def alive(self, test, *args):
        far = self.serve(self.names[1])
        self.near = self.serve(self.names[0])

        def replaced_meanwhile(seconds):
            self.frozen.clear()
            pair = self.traffic(test, self.names, by(self.near), by(far), "-D", str(seconds), "--verify", *args)
            for one in pair:
                one.wait_for("#bytes", 60)
            for _ in range(RESTARTS):
                self.near = self.successor_of(self.near)
                if any(one.process.poll() is not None for one in pair):
                    break
            lasted = all(one.process.poll() is None for one in pair)
            self.finish_both(*pair)
            return lasted

        self.while_it_lasts(replaced_meanwhile, [seconds + RESTARTS for seconds in (3, 30, 120)])
        self.tell()

    def test_writes(self):
        self.alive("write_bw", "-s", "65536")

    def test_reads(self):
        self.alive("read_bw", "-s", "65536", "-q", "3")

    def test_sends(self):
        self.alive("send_bw", "-s", "1000", "-q", "5")

    def test_atomics(self):
        self.alive("atomic_bw")

    def test_1000_queue_pairs(self):
        self.alive("write_bw", "-s", "64", "-m", "1024", "-t", "2", "-q", "1000")

    @unittest.skipUnless(RESTARTS > 3, "UROCE_RESTARTS asks for more than the few of every run")
    def test_10000_queue_pairs(self):
        self.alive("write_bw", "-s", "64", "-m", "1024", "-t", "2", "-q", "10000")


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(CLIENT.exists(), "libibverbs is missing")
class ExactlyOnce(Case):
    """Both daemons are replaced in turn under programs that check each operation at both ends (clients/alive.cc)."""

    def sides(self, daemons, lanes=LANES):
        """Server and client of clients/alive.cc, both running."""
        port, programs = harness.free_port(), []
        for daemon, last in zip(daemons, ((), ("--lanes", lanes, f"10.199.0.{self.names.index(daemons[0].space) + 1}"))):
            programs.append(self.start([RUN, CLIENT, "--device", "uroce0", "--port", port, "--timeout", "16", *last], daemon.space,
                                       env={"UROCE_SOCKET": str(daemon.socket)}))
        for one in programs:
            one.wait_for("running", 60)
        return programs

    def alive(self, names, restarts=RESTARTS):
        self.names = names
        daemons = [self.serve(name) for name in names]
        server, client = self.sides(daemons)
        before = None
        for number in range(restarts):
            daemons[number % 2] = self.successor_of(daemons[number % 2])
            for one in (server, client):
                self.assertIsNone(one.process.poll(), str(one))
            if number == 1:
                before = [holdings(one) for one in daemons]
        after = [holdings(one) for one in daemons]
        client.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)
        done = [json.loads(one.output.splitlines()[-1]) for one in (server, client)]
        for side in done:
            for what in ("messages", "atomics", "reads", "unreliable"):
                self.assertGreater(side[what], 0, done)
        for then, now in zip(before, after):
            self.assertEqual(now["descriptors"], then["descriptors"])
            self.assertLessEqual(now["mappings"], then["mappings"] + 8, "the heap may be in some more pieces")
            self.assertLessEqual(now["memory"], then["memory"] + 4096)
        self.tell(**{what: sum(side[what] for side in done) for what in done[0]})
        return done

    def test_all_operations(self):
        done = self.alive(self.names, max(RESTARTS, 4))
        self.assertEqual([side["lost"] for side in done], [0, 0])

    def test_all_operations_with_loss(self):
        """1 % of the frames are lost, either way."""
        names, relay = self.with_relay(1500)
        relay.stdin.write(json.dumps(LOSS) + "\n")
        relay.stdin.flush()
        relay.stdout.readline()
        self.alive(names, max(RESTARTS, 4))


if __name__ == "__main__":
    harness.main()
