"""Parts that the system tests share: programs under a time limit, EAL arguments that never collide, namespaces, TAP output."""

import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import recordings

BUILD = pathlib.Path(os.environ.get("UROCE_BUILD", "build")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PERF = BUILD / "apps" / "uroce_perf"
CPUS = sorted(os.sched_getaffinity(0))
# Of every limit of time, which says that something hangs: a busy machine needs more, and slower builds (sanitizers) do.
SLOW = 3 * float(os.environ.get("UROCE_TIME_FACTOR", "1"))
_serial = itertools.count()
_reserved_ports = []
# Tests say what an idle engine does: two pollers may share a core here.
IDLE = ("--idle", "sleep")
# Of uroce_perf: an ACK may be late by a second, seven times over. A busy machine keeps processes waiting for that long.
PATIENT = ("-u", "18")


def free_hugepages():
    pool = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
    try:
        return int((pool / "free_hugepages").read_text()) - int((pool / "resv_hugepages").read_text())
    except OSError:
        return 0


def free_shared_hugepages(prefix):
    """Of an EAL that was started without --in-memory or --huge-unlink: its pages stay in use when it has ended."""
    for mount in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = mount.split()
        if kind == "hugetlbfs":
            for page in pathlib.Path(where).glob(f"{prefix}map_*"):
                page.unlink()


def free_port():
    """A TCP port that nobody uses, and that no other test gets before this process ends. It is none of those that the kernel
    gives to clients: one of them could take it before the server has."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)  # leaves the seeded numbers of a test alone
        reserved = socket.socket(socket.AF_UNIX)
        try:
            reserved.bind(f"\0uroce-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            reserved.close()
            continue
        _reserved_ports.append(reserved)
        return port


def eal(*extra, lcores="0", memory=192, huge=False):
    """EAL arguments of one process: no files shared with any other, no hardware. Hugepages are for suites that run alone:
    EAL ends where another suite takes them between its count and its mapping."""
    args = ["-l", str(lcores), "--no-pci", "--no-telemetry", f"--file-prefix=uroce-test-{os.getpid()}-{next(_serial)}"]
    args += ["--in-memory", "-m", str(memory)] if huge else ["--no-huge", "-m", str(memory)]
    return args + list(extra)


def patience(test, args):
    """PATIENT, for a benchmark of uroce_perf with queue pairs whose arguments say nothing else."""
    return () if test.startswith("raw") or "-u" in args else PATIENT


def wake_ups(pid):
    """How often the threads of a process have slept and gone on, in all (proc(5))."""
    count = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            count += int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
    return count


@contextlib.contextmanager
def standing(*threads):
    """These threads of other programs stand still until the end of the block, and no other threads do. Needs root."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    seize, interrupt, detach, every_thread = 0x4206, 0x4207, 17, 0x40000000
    stopped = []
    try:
        for thread in threads:
            for request in (seize, interrupt):
                if ptrace(request, thread, None, None) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot stop thread {thread}")
            os.waitpid(thread, every_thread)
            stopped.append(thread)
        yield
    finally:
        for thread in stopped:
            if ptrace(detach, thread, None, None) != 0:
                raise OSError(ctypes.get_errno(), f"cannot let thread {thread} go on")


def loads(said):
    """The JSON that a command of `uroce` printed. Before it, the command may have said that it waits for the daemon."""
    return json.loads("".join(line for line in said.splitlines(True) if not line.startswith("uroce: waiting for ")))


def is_alive(process):
    """Whether a process has not ended, by its id."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Program:
    """A running program with its output in files. Ends, by its own process id, with the `with` block at the latest."""

    def __init__(self, command, directory, namespace=None, env=None, pass_fds=()):
        self.command = [str(c) for c in [*command, *recordings.options(command, directory)]]
        if namespace:
            self.command = ["ip", "netns", "exec", namespace] + self.command
        self.log = pathlib.Path(tempfile.mkstemp(suffix=".log", dir=directory)[1])
        # No session of its own: with autogroups (sched(7)) a session is a scheduling group, and Linux 6.18 at times lets
        # one keep another from their CPU for seconds.
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=directory, process_group=0, env={**os.environ, **(env or {})}, pass_fds=pass_fds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def output(self):
        return self.log.read_text(errors="replace")

    def wait(self, seconds):
        """Exit code. A program that is still running then is killed, and the test fails with its output."""
        try:
            return self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds * SLOW:.0f} s: {self}") from None

    def wait_for(self, text, seconds):
        """Returns once the output has `text`."""
        limit = time.monotonic() + seconds * SLOW
        while True:
            ended = self.process.poll() is not None  # asked first: it may say the text and end between the two questions
            if text in self.output:
                return
            if ended:
                raise AssertionError(f"ended without saying '{text}': {self}")
            if time.monotonic() > limit:
                raise AssertionError(f"did not say '{text}' within {seconds * SLOW:.0f} s: {self}")
            time.sleep(0.02)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30 * SLOW)

    def __str__(self):
        return f"{' '.join(self.command)}\n(exit code {self.process.poll()})\n{self.output}"


def name_of(test):
    """The test's own name below build/recordings."""
    return f"{pathlib.Path(sys.argv[0]).stem}.{test.id().removeprefix('__main__.')}"


class Case(unittest.TestCase):
    """A test case with a folder of its own, removed at the end."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(recordings.forget, self.directory, name_of(self))

    def start(self, command, namespace=None, env=None):
        program = Program(command, self.directory, namespace, env)
        self.addCleanup(program.kill)
        return program

    def finish(self, program, seconds, code=0):
        """Waits for the end and checks the exit code."""
        self.assertEqual(program.wait(seconds), code, str(program))
        return program.output

    def finish_both(self, server, client, seconds=60):
        """Both end well, or the failure shows what both said."""
        try:
            self.finish(client, seconds)
            self.finish(server, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}\n--- the server\n{server}\n--- the client\n{client}") from None

    def while_it_lasts(self, run, durations=(6, 30, 120)):
        """`run` makes something happen during so many seconds of traffic. Where it returns False, the traffic ended too early, as
        on a busy machine: once more, with longer traffic."""
        for seconds in durations:
            if run(seconds):
                return
        self.fail(f"it did not happen during {durations[-1]} s of traffic")

    def run_perf(self, test, eal_args, *args, seconds=60, **kw):
        """One uroce_perf process from start to end; its JSON report."""
        report = self.directory / f"report-{next(_serial)}.json"
        program = self.start([PERF, test, *eal_args, "--", *args, f"--out_json_file={report}"], **kw)
        self.finish(program, seconds)
        return json.loads(report.read_text())

    def start_pair(self, test, server_eal, client_eal, *args, server_args=(), client_args=(), namespaces=(None, None),
                   address="127.0.0.1"):
        """Server and client of one benchmark, each a process. Returns both, running."""
        common = ["-p", free_port(), *patience(test, (*args, *server_args, *client_args)), *args]
        server = self.start([PERF, test, *server_eal, "--", *common, *server_args], namespaces[0])
        report = self.directory / f"report-{next(_serial)}.json"
        client = self.start([PERF, test, *client_eal, "--", *common, *client_args,
                             f"--out_json_file={report}", address], namespaces[1])
        client.report = report
        return server, client

    def run_pair(self, *args, seconds=60, **kw):
        """Server and client to their ends; the client's JSON report."""
        server, client = self.start_pair(*args, **kw)
        try:
            self.finish(client, seconds)
            self.finish(server, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}\n--- the server\n{server}\n--- the client\n{client}") from None
        return json.loads(client.report.read_text())


class Namespaces:
    """Two network namespaces: `d0` joins them for DPDK (no kernel address, so the kernel answers nothing there), `c0`
    joins them for TCP with kernel addresses 10.199.0.1 and 10.199.0.2."""

    def __init__(self, mtu=4200):
        tag = f"ur{os.getpid() % 100000}x{next(_serial)}"
        self.names = (f"{tag}a", f"{tag}b")
        self.mtu = mtu

    def __enter__(self):
        a, b = self.names
        try:
            for name in self.names:
                ip("netns", "add", name)
                sysctl(name, "net.ipv6.conf.all.disable_ipv6=1")
                sysctl(name, "net.ipv6.conf.default.disable_ipv6=1")
                ip("-n", name, "link", "set", "lo", "up")
            ip("-n", a, "link", "add", "d0", "mtu", self.mtu, "type", "veth", "peer", "name", "d0", "mtu", self.mtu, "netns", b)
            ip("-n", a, "link", "add", "c0", "type", "veth", "peer", "name", "c0", "netns", b)
            for number, name in enumerate(self.names, 1):
                ip("-n", name, "link", "set", "d0", "arp", "off", "up")
                ip("-n", name, "addr", "add", f"10.199.0.{number}/24", "dev", "c0")
                ip("-n", name, "link", "set", "c0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, timeout=30 * SLOW, check=False)


def ip(*args):
    done = subprocess.run(["ip", *map(str, args)], capture_output=True, text=True, timeout=30 * SLOW, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(map(str, args))}: {done.stderr.strip()}")


def sysctl(namespace, setting):
    """In `namespace`, or where this runs when it is None."""
    key, value = setting.split("=")
    path = "/proc/sys/" + key.replace(".", "/")
    within = ["ip", "netns", "exec", namespace] if namespace else []
    subprocess.run([*within, "sh", "-c", f"echo {value} > {path}"], stderr=subprocess.DEVNULL, timeout=30 * SLOW, check=False)


def wait_for_listener(namespace, port, program, seconds):
    """Returns once `program` or any other listens on this TCP port of the namespace."""
    limit = time.monotonic() + seconds * SLOW
    row = re.compile(rf": \w+:{port:04X} \w+:0000 0A ")  # 0A: LISTEN
    while True:
        done = subprocess.run(["ip", "netns", "exec", namespace, "cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True,
                              text=True, timeout=30 * SLOW, check=False)
        if row.search(done.stdout):
            return
        if program.process.poll() is not None or time.monotonic() > limit:
            raise AssertionError(f"nobody listens on TCP port {port}: {program}")
        time.sleep(0.1)


def wait_for_rounds(pair, folder, seconds=60):
    """Returns once client_pair, a running Program, has made 64 rounds in its folder: thousands of frames and more."""
    limit = time.monotonic() + seconds * SLOW
    while not (folder / "rounds").exists():
        if pair.process.poll() is not None or time.monotonic() > limit:
            raise AssertionError(f"the two clients made no 64 rounds within {seconds * SLOW:.0f} s: {pair}")
        time.sleep(0.02)


def may_make_namespaces():
    """Whether this machine lets the tests make network namespaces joined by veth."""
    try:
        with Namespaces():
            return True
    except (OSError, RuntimeError, subprocess.SubprocessError):
        return False


class TapResult(unittest.TestResult):
    """One TAP line per test case, for `protocol: 'tap'` in meson, and a comment with the seconds since the line before: those of
    the case, and of what its class set up."""

    def __init__(self):
        super().__init__()
        self.number = 0
        self.failed_parts = []
        self.since = time.monotonic()

    def _line(self, ok, test, note=""):
        self.number += 1
        now = time.monotonic()
        print(f"{'ok' if ok else 'not ok'} {self.number} {test.id().removeprefix('__main__.')}{note}\n# {now - self.since:.1f} s",
              flush=True)
        self.since = now
        if not ok:
            self._keep_recordings(test)

    def _keep_recordings(self, test):
        kept = recordings.keep(name_of(test))
        if kept is not None:
            self._explain(f"Its recordings are in {kept}: see `uroce record dump` and `uroce replay`.")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(True, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(True, test, f" # SKIP {reason}")

    def addError(self, test, err):
        super().addError(test, err)
        self._line(False, test)
        self._explain(self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._line(False, test)
        self._explain(self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        """The case ends without any of the calls above where a part of it failed."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            kind = self.failures if issubclass(err[0], test.failureException) else self.errors
            self.failed_parts.append((str(subtest), kind[-1][1]))
            self._keep_recordings(test)

    def stopTest(self, test):
        super().stopTest(test)
        if self.failed_parts:
            self._line(False, test)
            for name, text in self.failed_parts:
                self._explain(f"{name}\n{text}")
        self.failed_parts = []

    @staticmethod
    def _explain(text):
        """To stderr: of a failed TAP test, meson shows nothing else."""
        print("\n".join("# " + line for line in text.splitlines()), file=sys.stderr, flush=True)


def main():
    """Runs the cases of the calling file, or those whose name contains an argument, and prints TAP."""
    suite = unittest.TestSuite()

    def collect(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                collect(test)
            elif not sys.argv[1:] or any(word in test.id() for word in sys.argv[1:]):
                suite.addTest(test)

    collect(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    print(f"1..{suite.countTestCases()}", flush=True)
    result = TapResult()
    suite.run(result)
    sys.exit(not result.wasSuccessful())
