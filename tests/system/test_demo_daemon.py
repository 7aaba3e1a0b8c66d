#!/usr/bin/env python3
"""`uroced --demo` that uroce-run starts: one for all, as long as one needs it, whoever dies. And one lock for the socket."""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness
import verbs
from verbs import RUN, UROCED

STARTED = "no daemon answered; "
USER = 61235  # nobody else's
OWNER, USERS, CLAIM = range(3)  # message::LockByte


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.directory / "uroced.sock"
        self.lock = self.directory / "uroced.sock.lock"
        self.env = {"UROCE_SOCKET": str(self.socket)}
        self.addCleanup(self.end_daemon)

    def end_daemon(self):
        """Of a test that has failed."""
        try:
            os.kill(self.holder()[0], signal.SIGKILL)
        except (OSError, ValueError):
            pass

    @staticmethod
    def end_group(program):
        """Ends the rest of its process group."""
        try:
            os.killpg(program.process.pid, signal.SIGKILL)
        except OSError:
            pass

    def holder(self):
        """The process that has the socket, and the program that started it."""
        process, program = self.lock.read_text().split()
        return int(process), program

    def until(self, true, what, seconds=60):
        limit = time.monotonic() + seconds * harness.SLOW
        while not true():
            self.assertLess(time.monotonic(), limit, f"{what} within {seconds} s")
            time.sleep(0.01)

    @staticmethod
    def is_dead(process):
        """Its sockets close with its last thread. The first thread is a zombie before."""
        folder = pathlib.Path(f"/proc/{process}")
        try:
            return (folder / "stat").read_text().rpartition(") ")[2][0] == "Z" and len(list((folder / "task").iterdir())) == 1
        except (FileNotFoundError, ProcessLookupError):
            return True

    def until_gone(self):
        """The daemon has ended in order, and left nothing."""
        self.until(lambda: not self.socket.exists() and not self.lock.exists(), "the daemon ends")

    def under(self, *command):
        return self.start([RUN, *command], env=self.env)

    def waiting(self, name, last=":"):
        """A program that says `up` once it has listed the devices, and then waits to be let go, to run `last`."""
        script = f'ibv_devices && echo up && until [ -e "$0" ]; do sleep 0.02; done && {last}'
        return self.under("sh", "-c", script, self.directory / name)

    def go(self, name):
        (self.directory / name).touch()

    def started(self, programs):
        return sum(program.output.count(STARTED) for program in programs)

    def byte_is_locked(self, byte):
        with self.lock.open("r+b") as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            return struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK

    def starting(self):
        """uroce-run and its daemon, stopped before it serves."""
        for _ in range(10):
            run = self.waiting("go")
            self.until(lambda: self.lock.exists() and len(self.lock.read_text().split()) == 2, "a daemon starts")
            self.until(lambda: self.holder()[0] != run.process.pid, "the daemon has the lock")
            daemon = self.holder()[0]
            os.kill(daemon, signal.SIGSTOP)
            if not self.byte_is_locked(CLAIM):
                return run, daemon
            os.kill(daemon, signal.SIGCONT)  # it served already
            run.kill()
            self.until_gone()
        return self.fail("each daemon served before it could be stopped")


class Together(Case):
    def test_many(self):
        for number in range(4):
            with self.subTest(round=number):
                programs = [self.waiting(f"go{number}") for _ in range(8)]
                for program in programs:
                    program.wait_for("\nup", 60)
                self.assertEqual(self.started(programs), 1, "\n".join(map(str, programs)))
                self.go(f"go{number}")
                for program in programs:
                    self.finish(program, 60)
                self.until_gone()

    def test_one_after_the_other(self):
        """Each finds the daemon of the one before, or its end."""
        for _ in range(6):
            self.assertIn("uroce1", self.finish(self.under("ibv_devices"), 60))

    def test_a_daemon_that_has_ended_when_it_is_asked(self):
        """Its socket and its lock are gone by the time that uroce-run looks why it said nothing."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ending:
            ending.bind(str(self.socket))
            ending.listen()
            ending.settimeout(60 * harness.SLOW)
            run = self.under("ibv_devices")
            connection, _ = ending.accept()
            self.socket.unlink()
            connection.close()
            self.assertIn("uroce1", self.finish(run, 60))

    def test_after_a_daemon_that_was_killed(self):
        first = self.waiting("go")
        first.wait_for("\nup", 60)
        daemon = self.holder()[0]
        os.kill(daemon, signal.SIGKILL)
        self.until(lambda: self.is_dead(daemon), "it dies")  # until then it may still greet a program
        self.assertTrue(self.socket.exists())
        programs = [self.waiting("go") for _ in range(4)]
        for program in programs:
            program.wait_for("\nup", 60)
        self.assertEqual(self.started(programs), 1, "\n".join(map(str, programs)))
        self.go("go")
        for program in [first, *programs]:
            self.finish(program, 60)
        self.until_gone()

    def test_daemons_on_a_stale_socket(self):
        first = self.start([UROCED, "--demo", "--socket", self.socket])
        first.wait_for("serving", 60)
        first.kill()
        daemons = [self.start([UROCED, "--demo", "--socket", self.socket]) for _ in range(4)]
        self.until(lambda: sum(daemon.process.poll() is None for daemon in daemons) == 1, "one is left")
        served = next(daemon for daemon in daemons if daemon.process.poll() is None)
        served.wait_for("serving", 60)
        for daemon in daemons:
            if daemon is not served:
                self.assertIn(f"another uroced (process {served.process.pid}) has this socket", self.finish(daemon, 1, 1))
        served.process.terminate()
        self.finish(served, 60)
        self.until_gone()


class Killed(Case):
    def test_the_starter_while_the_daemon_starts(self):
        starter, daemon = self.starting()
        others = [self.waiting("go") for _ in range(3)]
        self.until(lambda: all("waiting for uroced" in other.output for other in others), "they say that they wait")
        starter.kill()
        os.kill(daemon, signal.SIGCONT)
        for other in others:
            other.wait_for("\nup", 60)
        self.assertEqual(self.started(others), 0, "\n".join(map(str, others)))
        self.go("go")
        for other in others:
            self.finish(other, 60)
        self.until_gone()

    def test_the_starter_while_another_runs(self):
        starter = self.waiting("never")
        starter.wait_for("\nup", 60)
        other = self.waiting("go", "ibv_devices")
        other.wait_for("\nup", 60)
        daemon = self.holder()
        starter.kill()
        third = self.under("ibv_devices")
        self.finish(third, 60)
        self.go("go")
        self.finish(other, 60)
        self.assertEqual(self.started([starter, other, third]), 1)
        self.until_gone()
        self.assertEqual(daemon[1], "uroce-run")

    def test_all(self):
        programs = [self.waiting("never") for _ in range(3)]
        for program in programs:
            program.wait_for("\nup", 60)
        for program in programs:
            program.kill()
        self.until_gone()

    def test_the_only_one_while_the_daemon_starts(self):
        starter, daemon = self.starting()
        starter.kill()
        os.kill(daemon, signal.SIGCONT)
        self.until_gone()

    def test_the_folder_is_removed_while_the_daemon_starts(self):
        """The lock has gone with it. On another one the daemon would never end."""
        gone = self.socket.parent / "gone"
        gone.mkdir()
        with open(gone / "uroced.sock.lock", "w") as lock:
            shutil.rmtree(gone)
            done = subprocess.run([UROCED, "--demo", "--socket", gone / "uroced.sock"], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "UROCED_LOCK": str(lock.fileno())}, pass_fds=[lock.fileno()])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not the lock of this socket", done.stdout + done.stderr)
        self.assertFalse(gone.exists())

    def test_uroce_run_over_its_program(self):
        """The program ends with it, and the daemon with the program."""
        run = self.waiting("never")
        run.wait_for("\nup", 60)
        process = run.process.pid
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
        programs = [int(child) for child in children if int(child) != self.holder()[0]]
        self.assertTrue(programs, children)
        run.process.kill()
        run.wait(20)
        for program in programs:
            self.until(lambda program=program: self.is_dead(program), "the program ends")
        self.until_gone()


class WithAUsersDaemon(Case):
    def test_it_goes_before_one_that_does_not_serve_yet(self):
        run, daemon = self.starting()
        users = self.start([UROCED, "--demo", "--socket", self.socket])
        users.wait_for(f"waiting for uroced (process {daemon})", 60)
        os.kill(daemon, signal.SIGCONT)
        users.wait_for("serving uroce0", 60)
        run.wait_for("\nup", 60)
        self.assertEqual(self.holder(), (users.process.pid, "uroced"))
        self.assertEqual(self.started([run]), 0, str(run))
        self.go("go")
        self.finish(run, 60)
        self.assertIsNone(users.process.poll(), str(users))
        users.process.terminate()
        self.finish(users, 60)
        self.until_gone()

    def test_typed_together(self):
        script = '"$0" --demo & exec "$1" ibv_devices'
        run = self.start(["sh", "-c", script, UROCED, RUN], env=self.env | {"PATH": f"{os.environ['PATH']}:/usr/sbin"})
        self.addCleanup(self.end_group, run)
        self.assertIn("uroce1", self.finish(run, 60))

    def test_it_is_waited_for_while_it_starts(self):
        users = self.start([UROCED, "--demo", "--socket", self.socket])
        self.until(self.lock.exists, "it has the lock")
        run = self.under("ibv_devices")
        self.assertIn("uroce1", self.finish(run, 60))
        self.assertEqual(self.started([run]), 0, str(run))
        users.process.terminate()
        self.finish(users, 60)

    def test_a_socket_in_use_says_who_has_it(self):
        run = self.waiting("go")
        run.wait_for("\nup", 60)
        daemon = self.holder()[0]
        said = self.finish(self.start([UROCED, "--demo", "--socket", self.socket]), 60, 1)
        self.assertIn(f"{self.socket}: another uroced (process {daemon}) has this socket; uroce-run started it, and it ends "
                      "when no program uses it any more", said)
        self.go("go")
        self.finish(run, 60)
        users = self.start([UROCED, "--demo", "--socket", self.socket])  # the other one may be ending
        users.wait_for("serving uroce0", 60)
        users.process.terminate()
        self.finish(users, 60)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "mounts, and becomes another user")
class WithoutASocketInTheEnvironment(Case):
    """Each command has a /run of its own, so that a daemon of this machine is not found."""

    PAIR = """
    "$0" ibv_rc_pingpong -d uroce0 -g 0 -p $1 & server=$!
    until "$0" ibv_rc_pingpong -d uroce1 -g 0 -p $1 127.0.0.1; do kill -0 $server || exit 1; sleep 0.1; done
    wait $server
    """

    def run_pair(self, *become, env=None):
        alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=755 tmpfs /run && exec "$@"', "sh"]
        run = self.start([*alone, *become, "sh", "-c", self.PAIR, RUN, harness.free_port()], env=env)
        output = self.finish(run, 120)
        self.assertEqual(output.count("iters in"), 2, output)
        return output

    def test_root(self):
        self.assertIn("--socket /run/uroce/uroced.sock", self.run_pair())

    def test_an_ordinary_user(self):
        own = self.directory / "own"
        own.mkdir()
        os.chown(own, USER, USER)
        self.directory.chmod(0o755)
        become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR")
        output = self.run_pair(*become, env={"TMPDIR": str(own)})
        self.assertRegex(output, re.escape(f"--socket {own}/uroce-{USER}/uroced.sock"))


if __name__ == "__main__":
    harness.main()
