#!/usr/bin/env python3
"""Queue pairs outlive their daemon: verified traffic goes on while `uroced --replace` takes over again and again.

UROCE_RESTARTS=N makes N restarts in each case. Each case prints what it saw as a line of JSON, which bench/run_restart reads.
UROCE_OTHER_BUILD names the build folder of another release, to and from which daemons are upgraded."""

import json
import os
import pathlib
import re
import shutil
import signal
import time
import unittest

import harness
import replacing
import veth
from harness import BUILD
from replacing import BELONGINGS, FAILED, READY
from veth import UROCE, UROCED, by

RESTARTS = int(os.environ.get("UROCE_RESTARTS", "3"))
OTHER = pathlib.Path(os.environ["UROCE_OTHER_BUILD"]).resolve() if "UROCE_OTHER_BUILD" in os.environ else None
RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
CLIENT = BUILD / "tests" / "system" / "clients" / "client_alive"
LANES = "rc=3,srq=2,xrc=2,uc=1,ud=1"
OLDEST_LANES = "rc=3,srq=2,uc=1,ud=1"  # an estate of version 1 has no XRC
LOSS = {"seed": 7, "lose": 0.01, "repeat": 0, "delay": 0}


def least_descriptors(process, looks=20):
    """It keeps these. Some look finds none of those that it opens for a moment."""
    counts = []
    for _ in range(looks):
        counts.append(len(list((process / "fd").iterdir())))
        time.sleep(0.01)
    return min(counts)


def holdings(daemon):
    """Descriptors and mappings of a daemon, and its memory in KiB."""
    process = pathlib.Path(f"/proc/{daemon.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {"descriptors": least_descriptors(process), "mappings": len((process / "maps").read_text().splitlines()),
            "memory": int(status["RssAnon"].split()[0])}


class Case(replacing.Case):
    def setUp(self):
        super().setUp()
        self.written = set()

    def successor_of(self, daemon, **kw):
        after = self.replace(daemon, **kw)
        frozen, queue_pairs, refused = map(int, re.search(replacing.HANDED_OVER.format(r"\d+"), daemon.output).groups())
        self.frozen.append(frozen)
        self.queue_pairs.add(queue_pairs)
        self.assertEqual(refused, 0, daemon.output)
        self.written.update(re.findall(r"got (version \d+ of the estate, \d+ of snapshots)", daemon.output))
        return after

    def wait_until_unused(self, daemon):
        limit = time.monotonic() + 20 * harness.SLOW
        while harness.loads(self.finish(self.start([UROCE, "show", "client", "--json", "--socket", daemon.socket]), 30)):
            self.assertLess(time.monotonic(), limit, str(daemon))

    def tell(self, **more):
        print("# " + json.dumps({"case": self._testMethodName.removeprefix("test_"), "queue_pairs": max(self.queue_pairs),
                                 **replacing.summary(self.frozen), **more}))


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
            self.finish_both(*pair, seconds + 60)  # the restarts may be done long before
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
            programs.append(self.start([RUN, CLIENT, "--device", "uroce0", "--port", port, "--timeout", veth.PATIENT[1], *last], daemon.space,
                                       env={"UROCE_SOCKET": str(daemon.socket)}))
        for one in programs:
            one.wait_for("running", 60)
        return programs

    def alive(self, names, restarts=RESTARTS, lanes=LANES, releases=(UROCED,)):
        """`releases`: what each daemon becomes, one after the other. The last one is as the first daemons are."""
        self.names = names
        daemons = [self.serve(name) for name in names]
        server, client = self.sides(daemons, lanes)
        before, around = None, 2 * len(releases)
        for number in range(-(-restarts // around) * around):
            uroced = releases[number // 2 % len(releases)]
            daemons[number % 2] = self.successor_of(daemons[number % 2], uroced=uroced)
            if server.process.poll() is not None or client.process.poll() is not None:
                break
            if number == around - 1:
                before = [holdings(one) for one in daemons]
        after = [holdings(one) for one in daemons]
        self.assertEqual([one.process.poll() for one in (server, client)], [None, None], f"after {number + 1} restarts\n{server}\n{client}")
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
        self.summed = {what: sum(side[what] for side in done) for what in done[0]}
        return done

    def test_all_operations(self):
        done = self.alive(self.names, max(RESTARTS, 4))
        self.tell(**self.summed)
        self.assertEqual([side["lost"] for side in done], [0, 0])

    @unittest.skipUnless(OTHER, "UROCE_OTHER_BUILD names no build of another release")
    def test_upgrades(self):
        """Each daemon goes from this release to the other one and back, again and again."""
        other = OTHER / "apps/uroced/uroced"
        done = self.alive(self.names, max(RESTARTS, 8), OLDEST_LANES, (other, UROCED))
        versions = [self.finish(self.start([one, "--version"]), 20).splitlines()[0] for one in (UROCED, other)]
        self.tell(**self.summed, releases=versions, written=sorted(self.written))
        self.assertEqual([side["lost"] for side in done], [0, 0])

    def test_a_successor_that_cannot_take_all(self):
        """The daemon goes on, and says which program has what an older release does not know."""
        daemons = [self.serve(name) for name in self.names]
        server, client = self.sides(daemons)
        with replacing.Successor(daemons[0].socket, device=None) as old:
            self.assertEqual(old.take_over(self.mac())[0], 0)
            self.assertEqual(old.hear()[0], BELONGINGS)
            old.say(READY)
            step, _, why, _ = old.hear()
        self.assertEqual(step, FAILED)
        self.assertRegex(why, r"client \d+ \(client_alive, process \d+\) has XRC objects, which the successor cannot take over")
        daemons[0].wait_for("this daemon goes on", 20)
        daemons[0] = self.successor_of(daemons[0])
        client.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)

    def test_with_loss(self):
        """1 % of the frames are lost, either way."""
        names, relay = self.with_relay(1500)
        relay.stdin.write(json.dumps(LOSS) + "\n")
        relay.stdin.flush()
        relay.stdout.readline()
        self.alive(names, max(RESTARTS, 4))
        self.tell(**self.summed)

    def test_a_program_that_stands_still(self):
        """It is stopped before a restart, and goes on after it."""
        daemons = [self.serve(name) for name in self.names]
        server, client = self.sides(daemons)
        client.process.send_signal(signal.SIGSTOP)
        for number in range(2):
            daemons[number] = self.successor_of(daemons[number])
        client.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)  # of traffic
        client.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)

    def test_a_program_that_is_killed_meanwhile(self):
        """Nothing of it stays, and another one is served as ever."""
        daemons = [self.serve(name) for name in self.names]
        for delay in (0, 0.3, 0.5):
            server, client = self.sides(daemons)
            after = self.launch_successor(daemons[1])
            daemons[1].wait_for("prepares to take over", 20)
            time.sleep(delay)
            client.process.kill()
            after.wait_for("serving uroce0", 20)
            self.finish(daemons[1], 20)
            daemons[1] = after
            server.kill()
            self.wait_until_unused(after)
        server, client = self.sides(daemons)
        client.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)

    def test_a_successor_without_memory(self):
        """Or without room for its files. The running daemon goes on under traffic."""
        no_room = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4k,nr_inodes=2 none /run && exec "$@"', "sh")
        daemons = [self.serve(name) for name in self.names]
        server, client = self.sides(daemons)
        for before in (("prlimit", f"--as={200 << 20}"), no_room):
            with self.subTest(before=before):
                successor = self.launch_successor(daemons[1], before=before)
                self.assertNotEqual(successor.wait(30), 0, str(successor))
                self.assertIsNone(daemons[1].process.poll(), str(daemons[1]))
        daemons[1] = self.successor_of(daemons[1])
        client.process.send_signal(signal.SIGTERM)
        self.finish_both(server, client, 90)


PROGRAMS = ("ib_write_bw -F -D {seconds}", "ib_read_lat -F -D {seconds}", "ib_send_bw -F -b -q 3 -D {seconds}",
            "ib_atomic_bw -F -D {seconds}", "ib_write_bw -F -c UC -D {seconds}", "ib_send_bw -F -c UD -D {seconds}")


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(RUN.exists() and shutil.which("ib_write_bw"), "perftest is not installed")
class Programs(Case):
    """perftest's programs, one after the other, while both daemons are replaced in turn."""

    def through(self, command, daemons):
        port, programs = harness.free_port(), []
        for daemon, host in zip(daemons, ((), (f"10.199.0.{self.names.index(daemons[0].space) + 1}",))):
            programs.append(self.start([RUN, "stdbuf", "-oL", *command.split(), "-d", "uroce0", "-p", port, *host], daemon.space,
                                       env={"UROCE_SOCKET": str(daemon.socket)}))
            if not host:
                harness.wait_for_listener(daemon.space, port, programs[0], 20)
        for one in programs:
            one.wait_for("remote address", 20)
        return programs

    def test_perftest(self):
        daemons = [self.serve(name) for name in self.names]
        for command in PROGRAMS:
            with self.subTest(command=command):
                programs = self.through(command.format(seconds=2 + RESTARTS), daemons)
                for number in range(RESTARTS):
                    daemons[number % 2] = self.successor_of(daemons[number % 2])
                self.finish_both(*programs, 90)
        self.tell()


if __name__ == "__main__":
    harness.main()
