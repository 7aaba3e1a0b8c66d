#!/usr/bin/env python3
"""Queue pairs outlive a daemon that is killed: a process in its memory leaves them to the next one.

UROCE_RESTARTS=N kills N daemons in each case. Each case prints what it saw as a line of JSON, which bench/run_restart reads."""

import json
import os
import pathlib
import random
import re
import signal
import time
import unittest

import harness
import test_alive
import test_replace_cm
import veth
from harness import eal
from service_manager import ServiceManager
from veth import by

SEED = int(os.environ.get("UROCE_SEED", "34"))
CHURN = harness.BUILD / "tests" / "system" / "clients" / "client_churn"
LEFT = r"the daemon has died: the service manager keeps (\d+) queue pairs for the next uroced, (\d+) of them in error because an engine " \
    r"was at work on them, (\d+) clients refused"


def keeper_of(process):
    """The process that outlives it, by its name."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return next((int(child) for child in children if pathlib.Path(f"/proc/{child}/comm").read_text() == "uroced-keeper\n"), None)


class Killed:
    """A daemon whose service manager starts it again when it is killed."""

    def setUp(self):
        super().setUp()
        self.unknown = []  # queue pairs that each crash ended

    def serve(self, name, *args, user="", before=(), room=16):
        manager = ServiceManager(self, room=room)
        path = self.directory / f"{name}.sock"
        command = [*before, str(veth.UROCED), *eal(), "--", "--interface", "d0", "--socket", str(path), "--user", user, *args]
        return self.run_again(manager, command, name)

    def run_again(self, manager, command, name):
        one = manager.start(command, name)
        one.manager, one.command, one.space, one.socket = manager, command, name, command[command.index("--socket") + 1]
        one.wait_for("serving uroce0", 20)
        manager.wait_for("READY")
        limit = time.monotonic() + 20 * harness.SLOW
        while keeper_of(one.process.pid) is None and manager.room and "daemon.crash_recovery=false" not in command:
            self.assertLess(time.monotonic(), limit, one.output)
            time.sleep(0.001)
        return one

    def crash(self, daemon, number):
        """Until nothing of it is left, as a service manager waits."""
        keeper = keeper_of(daemon.process.pid)
        os.kill(daemon.process.pid, number)
        daemon.process.wait(20)
        limit = time.monotonic() + 20 * harness.SLOW
        while harness.is_alive(keeper):
            self.assertLess(time.monotonic(), limit, daemon.output)
            time.sleep(0.001)

    def successor_of(self, daemon, number=signal.SIGKILL, may_be_refused=0):
        begun = time.monotonic()
        self.crash(daemon, number)
        after = self.run_again(daemon.manager, daemon.command, daemon.space)
        self.frozen.append(round(1000 * (time.monotonic() - begun)))
        self.assertRegex(daemon.output, LEFT)
        queue_pairs, unknown, refused = map(int, re.search(LEFT, daemon.output).groups())
        self.assertLessEqual(refused, may_be_refused, daemon.output)
        self.unknown.append(unknown)
        self.queue_pairs.add(queue_pairs)
        self.assertIn(f"took over from process {daemon.process.pid}", after.output)
        return after


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(test_alive.CLIENT.exists(), "libibverbs is missing")
class ExactlyOnce(Killed, test_alive.ExactlyOnce):
    """Both daemons are killed in turn under programs that check each operation at both ends. Where an engine had a queue pair in hand,
    that one's program ends, and another one begins."""

    def test_all_operations(self):
        daemons = [self.serve(name) for name in self.names]
        programs = self.sides(daemons)
        for number in range(max(test_alive.RESTARTS, 4)):
            daemons[number % 2] = self.successor_of(daemons[number % 2])
            if self.unknown[-1]:
                self.wait_for_an_end(programs)
                programs = self.sides(daemons)
            else:
                time.sleep(0.1)  # of traffic
                self.assertEqual([one.process.poll() for one in programs], [None, None], f"after {number + 1} crashes\n{programs}")
        programs[1].process.send_signal(signal.SIGTERM)
        self.finish_both(*programs, 90)
        done = [json.loads(one.output.splitlines()[-1]) for one in programs]
        self.tell(in_hand=sum(self.unknown), **{what: sum(side[what] for side in done) for what in done[0]})

    def wait_for_an_end(self, programs):
        limit = time.monotonic() + 20 * harness.SLOW
        while all(one.process.poll() is None for one in programs):
            self.assertLess(time.monotonic(), limit, programs)
            time.sleep(0.01)
        for one in programs:
            one.kill()


for _name in [name for name in dir(ExactlyOnce) if name.startswith("test_") and name not in vars(ExactlyOnce)]:
    setattr(ExactlyOnce, _name, None)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
@unittest.skipUnless(test_replace_cm.CONNECTIONS.exists(), "the programs of rdma_cm are not built")
class Connections(Killed, test_replace_cm.Connections):
    """Listeners, connections and unread events go on. At the crash no connection begins or ends, and no queue pair is at work: its
    program could not go on."""

    KEPT = LEFT

    def replace(self, daemon):
        return self.successor_of(daemon)


for _name in ("test_a_client_connects_all_the_time", "test_a_server_is_connected_to_all_the_time", "test_perftest", "test_rping"):
    setattr(Connections, _name, None)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Crashes(Killed, test_alive.Case):
    """One side's daemon dies under a benchmark."""

    def traffic_with(self, *args, **kw):
        self.near, self.far = self.serve(self.names[0], *args, **kw), self.serve(self.names[1])
        pair = self.traffic("write_bw", self.names, by(self.near), by(self.far), "-D", "600", "--verify")
        for one in pair:
            one.wait_for("#bytes", 60)
        return pair

    def assert_goes_on(self, pair):
        """More frames arrive, which the benchmark verifies."""
        before = self.counters_of(self.near)["port_received"]
        limit = time.monotonic() + 20 * harness.SLOW
        while self.counters_of(self.near)["port_received"] < before + 1000:
            self.assertEqual([one.process.poll() for one in pair], [None, None], pair)
            self.assertLess(time.monotonic(), limit, self.near.output)

    def goes_on_after(self, number=signal.SIGKILL, **kw):
        """Tried again where the crash found an engine at work on the queue pair, which ends then."""
        for _ in range(5):
            pair = self.traffic_with(**kw)
            self.near = self.successor_of(self.near, number)
            if not self.unknown[-1]:
                return self.assert_goes_on(pair)
            for one in (*pair, self.near, self.far):
                one.kill()
        self.fail(f"queue pairs in hand at each crash: {self.unknown}")

    def test_as_an_ordinary_user(self):
        """Of few rights and few system calls."""
        self.directory.chmod(0o777)
        self.goes_on_after(user="games")

    def test_a_fault(self):
        self.goes_on_after(signal.SIGSEGV, before=("prlimit", "--core=0"))

    def wait_for_rounds(self, churners):
        """More of each succeed."""
        before = [one.output.count("rounds\n") for one in churners]
        limit = time.monotonic() + 20 * harness.SLOW
        while any(one.output.count("rounds\n") == count for one, count in zip(churners, before)):
            self.assertEqual({one.process.poll() for one in churners}, {None}, churners)
            self.assertLess(time.monotonic(), limit, churners)
            time.sleep(0.01)

    def test_programs_come_and_go(self):
        """A crash may meet each of their requests. Nothing of them is left. A program without one goes on."""
        moments = random.Random(SEED)
        daemon = self.serve(self.names[0])
        env = {"UROCE_SOCKET": str(daemon.socket)}
        resting, *churners = [self.start([test_alive.RUN, CHURN, *args], daemon.space, env=env) for args in (["rest"], [], [], [])]
        resting.wait_for("resting", 20)
        for number in range(max(test_alive.RESTARTS, 6)):
            self.wait_for_rounds(churners)
            time.sleep(moments.uniform(0, 0.05))
            daemon = self.successor_of(daemon, may_be_refused=len(churners))
            self.assertIsNone(resting.process.poll(), f"seed {SEED}, after {number + 1} crashes\n{resting}")
        self.wait_for_rounds(churners)
        for one in (resting, *churners):
            one.process.send_signal(signal.SIGTERM)
        self.finish(resting, 30)
        done = [harness.loads(self.finish(one, 30).splitlines()[-1]) for one in churners]
        self.wait_until_unused(daemon)
        self.assertEqual(harness.loads(self.finish(self.start([veth.UROCE, "show", "qp", "uroce0", "--json", "--socket", daemon.socket]), 30)), [])
        self.tell(seed=SEED, rounds=sum(one["rounds"] for one in done), failed=sum(one["failed"] for one in done))

    def test_the_keeper_dies(self):
        """Nothing happens, but a crash ends the clients."""
        pair = self.traffic_with()
        os.kill(keeper_of(self.near.process.pid), signal.SIGKILL)
        self.assert_goes_on(pair)
        self.near.process.kill()
        self.assertNotEqual(pair[0].wait(20), 0)
        self.assertEqual(self.near.manager.stored, {})

    def test_switched_off(self):
        pair = self.traffic_with("--set", "daemon.crash_recovery=false")
        self.assertIsNone(keeper_of(self.near.process.pid))
        self.near.process.kill()
        self.assertNotEqual(pair[0].wait(20), 0)
        self.assertEqual(self.near.manager.stored, {})

    def test_no_store(self):
        """Nobody would read what a keeper left."""
        daemon = self.serve(self.names[0], room=None)
        self.assertIsNone(keeper_of(daemon.process.pid))

    def test_an_orderly_end(self):
        """No keeper is left, and nothing is."""
        daemon = self.serve(self.names[0])
        keeper = keeper_of(daemon.process.pid)
        daemon.process.send_signal(signal.SIGINT)
        self.finish(daemon, 40)
        self.assertFalse(harness.is_alive(keeper))
        self.assertEqual(daemon.manager.stored, {})


if __name__ == "__main__":
    harness.main()
