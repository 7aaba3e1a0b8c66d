#!/usr/bin/env python3
"""`uroced --supervise`: a first process that starts the daemon again with what it left, where no service manager does."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import harness
import replacing
import veth
from harness import eal
from replacing import HANDED_OVER
from service_manager import ServiceManager
from veth import by

TOOK = "took over from process {}, "
AGAIN = "process {} {}; starting again with the queue pairs of its programs"
FORGED = "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(sys.argv[1].replace('@', '\\0', 1)); " \
         "socket.send_fds(s, [b'FDSTORE=1\\nFDNAME=uroce-estate'], [0])"


def child_of(program):
    """The daemon's process id below its supervisor; None while there is none."""
    pid = program.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


class Case(replacing.Case):
    def launch_supervised(self, *args, user="", program=veth.UROCED):
        path = self.directory / "uroced.sock"
        daemon = self.start([program, *eal(), "--", "--interface", "d0", "--socket", path, "--user", user, "--supervise", *args], self.names[0])
        self.addCleanup(self.kill_both, daemon)
        daemon.space, daemon.socket = self.names[0], path
        return daemon

    @staticmethod
    def kill_both(daemon):
        """The child leads a group of its own."""
        if daemon.process.poll() is None:
            child = child_of(daemon)
            daemon.kill()
            if child:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def supervised(self, *args, **kw):
        daemon = self.launch_supervised(*args, **kw)
        daemon.wait_for("serving uroce0", 20)
        daemon.child = child_of(daemon)
        return daemon

    def wait_until(self, happened, text):
        limit = time.monotonic() + 60 * harness.SLOW
        while not happened():
            self.assertLess(time.monotonic(), limit, text)
            time.sleep(0.02)

    def wait_for_count(self, program, text, count):
        self.wait_until(lambda: program.output.count(text) >= count or program.process.poll() is not None, text)
        self.assertEqual(program.output.count(text), count, str(program))

    def restart_in_place(self, daemon):
        """The child is told to leave what it has. Returns its id."""
        before, count = daemon.child, daemon.output.count("serving uroce0 on")
        os.kill(before, signal.SIGTERM)
        self.wait_for_count(daemon, "serving uroce0 on", count + 1)
        daemon.child = child_of(daemon)
        self.assertNotEqual(daemon.child, before)
        self.assertIn(AGAIN.format(before, "has ended"), daemon.output)
        return before


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Supervise(Case):
    def test_a_request_to_end(self):
        """Both signals end the clients, as nobody would keep them."""
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = self.supervised()
            daemon.process.send_signal(number)
            self.assertIn("SIGINT: ending 0 connections", self.finish(daemon, 40))
            self.assertFalse(daemon.socket.exists())

    def test_a_request_while_it_starts(self):
        daemon = self.launch_supervised()
        self.wait_until(lambda: child_of(daemon), "no child")
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 40)

    def test_faults_of_the_settings(self):
        """The child reads the file. Text and code are as without a supervisor."""
        file = self.directory / "uroced.toml"
        file.write_text("[limits]\nmax_qp = -1\n")
        said = [self.finish(self.start([veth.UROCED, *eal(), "--", "--config", file, *args]), 20, 2) for args in ((), ("--supervise",))]
        self.assertIn("max_qp", said[0])
        self.assertEqual(*said)
        self.assertIn("neither --check nor --demo", self.finish(self.start([veth.UROCED, "--demo", "--supervise"]), 20, 2))

    def test_a_new_file_and_sighup(self):
        file = self.directory / "uroced.toml"
        file.write_text('[daemon]\nlog_level = "debug"\n')
        daemon = self.supervised("--config", file)
        file.write_text('[daemon]\nlog_level = "info"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("log_level", 20)
        file.write_text("[limits]\nmax_qp = -1\n")
        os.kill(daemon.child, signal.SIGTERM)
        self.assertIn("max_qp", self.finish(daemon, 40, 2))

    def test_a_crash(self):
        """The child's clients go on, if no engine was at work on their queue pair."""
        daemon, far = self.supervised(), self.serve(self.names[1])
        pair = self.traffic("write_bw", self.names, by(daemon), by(far), "-u", "20", "-D", "600", "--verify", "-s", "65536")
        pair[1].wait_for("#bytes", 60)
        before = daemon.child
        os.kill(before, signal.SIGKILL)
        self.wait_until(lambda: child_of(daemon) not in (None, before) and daemon.output.count("serving uroce0") == 2, "no second run")
        self.assertIn(f"process {before} was killed by signal 9; starting again", daemon.output)
        self.assertIn(f"took over from process {before}", daemon.output)
        if "the service manager keeps 1 queue pairs for the next uroced, 0 of them in error" in daemon.output:
            self.assertEqual([one.process.poll() for one in pair], [None, None], pair)

    def test_a_crash_that_leaves_nothing(self):
        daemon = self.supervised("--set", "daemon.crash_recovery=false")
        os.kill(daemon.child, signal.SIGKILL)
        self.assertIn(f"process {daemon.child} was killed by signal 9, and left nothing", self.finish(daemon, 40, 137))

    def test_the_child_leaves_its_clients_to_the_next_run(self):
        far, frozen = self.serve(self.names[1]), []

        def restarted_meanwhile(seconds):
            daemon = self.supervised()
            pair = self.traffic("write_bw", self.names, by(daemon), by(far), "-u", "20", "-D", str(seconds), "--verify", "-s", "65536")
            for one in pair:
                one.wait_for("#bytes", 20)
            for _ in range(3):
                before = self.restart_in_place(daemon)
                if any(one.process.poll() is not None for one in pair):
                    break
                self.assertRegex(daemon.output, TOOK.format(before) + r".* 1 queue pairs, 0 clients refused")
            (row,) = harness.loads(self.finish(self.start([veth.UROCE, "show", "restart", "--json", "--socket", daemon.socket]), 30))
            self.assertTrue(row["next"]["kept_by_service_manager"], row)
            frozen.extend(map(int, re.findall(r"frozen (\d+) ms", daemon.output)))
            lasted = all(one.process.poll() is None for one in pair)
            self.finish_both(*pair)
            daemon.process.send_signal(signal.SIGTERM)
            self.finish(daemon, 40)
            return lasted

        self.while_it_lasts(restarted_meanwhile, (10, 40, 120))
        print(f"# {len(frozen)} restarts, frozen {min(frozen)} to {max(frozen)} ms")

    def supervisor_killed(self, **kw):
        far, daemon = self.serve(self.names[1]), self.supervised(**kw)
        client = self.traffic("write_bw", self.names, by(far), by(daemon), "-D", "600", "--verify", "-s", "65536")[1]
        client.wait_for("#bytes", 20)
        os.kill(daemon.process.pid, signal.SIGKILL)
        self.wait_until(lambda: not harness.is_alive(daemon.child), "the daemon outlives its supervisor")
        self.assertIn("the clients do not outlive this daemon: the service manager takes no descriptor: Connection refused", daemon.output)
        self.assertIn("SIGTERM: ending 1 connections", daemon.output)
        self.assertTrue(daemon.output.endswith("ended\n"), daemon.output)
        self.assertNotEqual(client.wait(20), 0)
        self.assertRegex(client.output, "flushed|Input/output error")  # of a completion, or of the next post

    def test_the_supervisor_is_killed(self):
        self.supervisor_killed()

    def test_the_supervisor_of_an_ordinary_user_is_killed(self):
        """A change of the user undoes PR_SET_PDEATHSIG."""
        self.directory.chmod(0o777)
        self.supervisor_killed(user="games")

    def test_strangers_leave_nothing(self):
        daemon = self.supervised("--set", "daemon.crash_recovery=false")
        name = re.search(r"NOTIFY_SOCKET=(@\w+)", pathlib.Path(f"/proc/{daemon.child}/environ").read_text())[1]
        subprocess.run(["ip", "netns", "exec", self.names[0], sys.executable, "-c", FORGED, name], check=True, stdin=subprocess.DEVNULL,
                       timeout=30 * harness.SLOW)
        os.kill(daemon.child, signal.SIGKILL)
        self.assertIn("and left nothing", self.finish(daemon, 40, 137))

    def test_another_daemon_takes_over(self):
        """A supervised one replaces a supervised one, and restarts in place."""
        daemon = self.supervised()
        after = self.launch_successor(daemon, "--supervise")
        after.wait_for("serving uroce0", 20)
        self.finish(daemon, 20)
        after.child = child_of(after)
        self.assertRegex(daemon.output, HANDED_OVER.format(after.child))
        self.restart_in_place(after)
        after.process.send_signal(signal.SIGTERM)
        self.finish(after, 40)

    def test_below_a_service_manager(self):
        """The supervisor is the main process. It passes on what the daemon says of itself, and takes what a daemon left."""
        manager = ServiceManager(self, watchdog_us=20_000_000)
        command = [veth.UROCED, *eal(), "--", "--interface", "d0", "--socket", self.directory / "uroced.sock", "--user", ""]
        plain = manager.start(command, self.names[0])
        manager.wait_for("READY")
        plain.process.send_signal(signal.SIGTERM)
        self.finish(plain, 40)
        self.assertEqual(list(manager.stored), ["uroce-estate"])
        daemon = manager.start([*command, "--supervise"], self.names[0])
        manager.wait_for("READY")
        self.assertEqual(manager.stored, {})
        self.assertIn(TOOK.format(plain.process.pid), daemon.output)
        daemon.child = child_of(daemon)
        manager.wait_for("WATCHDOG")
        self.restart_in_place(daemon)
        self.assertNotIn("STOPPING", {word for words in manager.said for word in words})
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 40)
        manager.wait_for("STOPPING")
        self.assertLessEqual({word for words in manager.said for word in words} - {"FDSTOREREMOVE", "FDNAME"},
                             {"READY", "STATUS", "WATCHDOG", "STOPPING"})
        self.assertEqual(sum("FDNAME" in words for words in manager.said), 1)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class StandIn(Case):
    """The next runs are those of stand_in.py."""

    def runs(self, plan):
        """A supervisor whose first run has left an estate to the first of `plan`."""
        place = self.directory / "uroced"
        shutil.copy(veth.UROCED, place)
        daemon = self.supervised(program=place)
        shutil.copy(harness.SOURCE / "tests/system/stand_in.py", self.directory / "new")
        (self.directory / "plan").write_text(" ".join(plan))
        (self.directory / "new").rename(place)
        os.kill(daemon.child, signal.SIGTERM)
        return daemon

    def told(self):
        return [json.loads(line) for line in (self.directory / "told").read_text().splitlines()]

    def left(self):
        """The id of what the last run left behind."""
        return int((self.directory / "left").read_text())

    def test_crashes_that_repeat(self):
        daemon = self.runs(["crash"])
        self.assertIn("was killed by signal 9, the last of 5 that lasted less than 10 s each; not starting again", self.finish(daemon, 40, 137))
        told = self.told()
        self.assertEqual(len(told), 5)
        self.assertEqual(len({one["pid"] for one in told}), 5)
        for one in told:
            self.assertEqual((one["estate"], one["name"], one["room"], one["watched"]), (True, "uroce-estate", "1", False))
            self.assertEqual(one["descriptors"], [0, 1, 2, 3])

    def test_what_a_crash_leaves(self):
        daemon = self.runs(["keep-and-crash", "keeper", "forget-and-crash"])
        self.finish(daemon, 40, 137)
        self.assertEqual([one["estate"] for one in self.told()], [True, "left by the daemon", "left by its keeper"])
        first, second, third = (one["pid"] for one in self.told())
        for pid in (first, second):
            self.assertIn(AGAIN.format(pid, "was killed by signal 9"), daemon.output)
        self.assertIn(f"process {third} was killed by signal 9, and left nothing", daemon.output)
        self.assertFalse(harness.is_alive(self.left()))

    def test_processes_that_linger(self):
        """They end, too, before the next run."""
        daemon = self.runs(["linger", "wait"])
        self.wait_until((self.directory / "waits").exists, "no next run")
        self.assertFalse(harness.is_alive(self.left()))
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 40, 7)

    def test_a_request_between_two_runs(self):
        daemon = self.runs(["linger"])
        self.wait_until((self.directory / "left").exists, "no run")
        self.wait_until(lambda: child_of(daemon) == self.left(), "the run goes on")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertNotIn("not starting again", self.finish(daemon, 40, 137))
        self.assertFalse(harness.is_alive(self.left()))

    def test_a_start_that_fails(self):
        daemon = self.runs(["fail"])
        self.assertIn("starting again", self.finish(daemon, 40, 1))
        self.assertEqual(len(self.told()), 1)


if __name__ == "__main__":
    harness.main()
