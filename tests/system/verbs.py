"""A daemon with two devices joined back to back, and Debian's verbs programs on it."""

import os
import pathlib
import shutil
import sys
import tempfile

import harness
from harness import BUILD, SOURCE, free_port

sys.path.insert(0, str(SOURCE / "config"))
import pair  # noqa: E402
from pair import CLOCK_UNKNOWN  # noqa: E402

UROCED = BUILD / "apps" / "uroced" / "uroced"
RUN = BUILD / "apps" / "uroce-run" / "uroce-run"


class Case(harness.Case):
    """Each test has a daemon of its own."""

    daemon_args = ()

    def setUp(self):
        super().setUp()
        self.socket = self.directory / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}
        self.daemon = self.start_daemon()

    def start_daemon(self):
        daemon = self.start([UROCED, "--demo", "--socket", self.socket, *self.daemon_args])
        daemon.wait_for("serving uroce0", 30)
        return daemon

    def tearDown(self):
        """After every test the daemon is alive, holds nothing, and ends in order."""
        if self.daemon is None:
            return
        self.assertIsNone(self.daemon.process.poll(), f"the daemon ended: {self.daemon}")
        self.daemon.process.terminate()
        self.finish(self.daemon, 30)

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed; config/packages.txt names its package")

    @staticmethod
    def words(*command):
        """Those that start a program under uroce-run."""
        return [RUN, *command]

    def under(self, *command):
        """A program under uroce-run, started."""
        self.need(str(command[0]))
        return self.start(self.words(*command), env=self.env)

    def shell(self, script, seconds, *options, env=None):
        """One uroce-run with all the processes of `script`; its output. Those that are left then are killed."""
        program = self.start(self.words(*options, "bash", "-c", script), env={**self.env, **(env or {})})
        try:
            return self.finish(program, seconds)
        finally:
            self.kill_group(program)

    @staticmethod
    def kill_group(program):
        """Servers that outlive the script."""
        try:
            os.killpg(program.process.pid, 9)
        except ProcessLookupError:
            pass

    def needs_netns(self):
        """`uroce-run --netns` makes interfaces."""
        if not pathlib.Path("/dev/net/tun").exists() or not harness.may_make_namespaces():
            self.skipTest("may not make network namespaces and interfaces (needs root and /dev/net/tun)")

    def counter(self, name):
        """The sum of both devices."""
        command = [BUILD / "apps" / "uroce" / "uroce", "stat", "--interval", "0", "--json", "--socket", self.socket]
        devices = harness.loads(self.finish(self.start(command), 30))
        return sum(device["counters"].get(name, 0) for device in devices)

    def pair(self, command, port_option="-p", devices=("uroce0", "uroce1"), seconds=60, tries=5):
        """Server and client of one command, on the two devices; both outputs. Where perftest could not calibrate the
        processor's clock, which it does anew each time and gives up on a machine that is busy just then: once more."""
        port = str(free_port())
        server = self.under(*command, "-d", devices[0], port_option, port)
        wait_for_listener(server, int(port))
        client = self.under(*command, "-d", devices[1], port_option, port, "127.0.0.1")
        try:
            code = client.wait(seconds)
        except AssertionError as hung:
            raise AssertionError(f"{hung}\n{server}") from None
        uncalibrated = CLOCK_UNKNOWN in client.output
        if code != 0 and not uncalibrated:
            server.wait(seconds)
            uncalibrated = CLOCK_UNKNOWN in server.output
        if uncalibrated and tries > 1:
            server.wait(seconds)
            return self.pair(command, port_option, devices, seconds, tries - 1)
        self.assertEqual(code, 0, f"{client}\n{server}")
        return self.finish(server, seconds), client.output


class SharedCase(Case):
    """The cases of a class share a daemon, which ends in order after the last one."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="uroce-test-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.shared_socket = folder / "uroced.sock"
        cls.shared_daemon = harness.Program([UROCED, "--demo", "--socket", cls.shared_socket, *cls.daemon_args], folder)
        cls.addClassCleanup(cls.shared_daemon.kill)
        cls.shared_daemon.wait_for("serving uroce0", 30)

    @classmethod
    def tearDownClass(cls):
        cls.shared_daemon.process.terminate()
        if cls.shared_daemon.wait(30) != 0:
            raise AssertionError(f"the daemon did not end in order: {cls.shared_daemon}")

    def start_daemon(self):
        self.socket = self.shared_socket
        self.env = {"UROCE_SOCKET": str(self.socket)}
        return self.shared_daemon

    def tearDown(self):
        self.assertIsNone(self.daemon.process.poll(), f"the daemon ended: {self.daemon}")


def wait_for_listener(program, port, seconds=20):
    """Returns once somebody listens on TCP `port`, without connecting: the programs take one connection each."""
    limit = harness.time.monotonic() + seconds * harness.SLOW
    while harness.time.monotonic() < limit:
        if pair.listens(port):
            return
        if program.process.poll() is not None:
            raise AssertionError(f"ended before it listened: {program}")
        harness.time.sleep(0.02)
    raise AssertionError(f"nobody listens on port {port} after {seconds} s: {program}")
