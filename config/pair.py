"""Runs uroce_perf between two endpoints on this machine: two processes joined by memif if there are two cores, else two
devices joined by rings in one process. The demo and tests/bench use it."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import load

MEMORY_MB = 256


# Of a run beside programs that take the cores. A peer waits its turn there for seconds, and a busy engine keeps its own peer
# from the core; one that sleeps gets the core as soon as it has work.
SHARED_CORES = ("--idle", "sleep", "-u", "19", "--peer-timeout", "90", "--connect-timeout", "90")
SHARED_CORES_SECONDS = 300
# perftest's get_clock.c prints this when it could not calibrate the clock, as on a machine that is busy just then.
CLOCK_UNKNOWN = "Correlation coefficient r^2"
TRIES = 3


_since_the_start = load.Meter(sorted(os.sched_getaffinity(0)))


class RunError(Exception):
    """A run failed; the text is one line that says what happened, and names the file with the output of its programs."""


def free_hugepages():
    try:
        return int(pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").read_text())
    except OSError:
        return 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    """True when somebody listens on the TCP port. It does not connect, because the programs accept one connection each."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[1].endswith(wanted):
                return True
    return False


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def machine():
    """The CPU's model, and where others took the cores since this program began, how much of them."""
    taken = _since_the_start.taken()
    return f"{cpu_model()}; measured on a busy machine: {taken}" if taken.disturbs else cpu_model()


def keep_output(text, apps):
    """Writes the output of programs that failed beside the folder of the built `apps`, or to the folder of temporary files; the
    file's path."""
    for folder in (apps.parent, pathlib.Path(tempfile.gettempdir())):
        try:
            (folder / "failed-run.log").write_text(text)
            return folder / "failed-run.log"
        except OSError:
            continue
    return "no file, because none can be written"


def give_up(what, output, apps):
    """Ends this program. One line says what failed and why, the last line of `output`; a file has the rest."""
    last = output.strip().rsplit("\n", 1)[-1] or "it said nothing"
    sys.exit(f"error: {what} failed: {last}. The output is in {keep_output(output, pathlib.Path(apps))}")


class Pair:
    """Two endpoints. A context manager, which removes its folder at the end."""

    def __init__(self, perf):
        self.perf = str(perf)
        self.cores = sorted(os.sched_getaffinity(0))
        self.limit = load.cpu_limit()
        self.two_processes = len(self.cores) > 1 and self.limit >= 2
        self.cores = self.cores[:2 if self.two_processes else 1]
        self.huge = free_hugepages() * 2 >= 2 * MEMORY_MB
        self.runs = 0
        self.load = load.sample(self.cores)
        self.most = None  # the load of the figure that others disturbed most
        # How often disturbed figures are taken again. A machine that is busy from the start on stays so.
        self.repeats = 0 if self.load.disturbs else 6

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-pair-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def __str__(self):
        joined = (f"two processes joined by memif, one busy core each (cores {self.cores[0]} and {self.cores[1]})"
                  if self.two_processes else "two devices joined by rings in one process on one core")
        limited = f", a container's limit of {self.limit:g} CPUs" if self.limit < 2 else ""
        return f"{joined}{limited}, {'2 MiB hugepages' if self.huge else '4 KiB pages'}"

    def note(self):
        """A sentence for below the figures where others disturbed them; else None."""
        return f"measured on a busy machine: {self.most}" if self.most else None

    def measure(self, test, *args, **kw):
        """As run(). Where others disturbed the run it is repeated, and the least disturbed report counts."""
        tries = []
        while not tries or (tries[-1][0].disturbs and self.repeats > 0 and len(tries) < TRIES):
            self.repeats -= bool(tries)
            report = self.run(test, *args, **kw)
            tries.append((self.load, report))
        if len(tries) == TRIES and tries[-1][0].disturbs:
            self.repeats = 0
        taken, report = min(tries, key=lambda one: one[0].total)
        if taken.disturbs and (self.most is None or taken.total > self.most.total):
            self.most = taken
        return report

    def run(self, test, *args, seconds=60, program=None):
        """The report of one run of uroce_perf, or of `program`: the first entry of its results. A run that failed beside
        programs that took the cores is repeated. Raises RunError."""
        for number in range(TRIES):
            meter, shared, failure = load.Meter(self.cores), self.load.disturbs, None
            try:
                report = self._run_once(test, args, max(seconds, SHARED_CORES_SECONDS) if shared else seconds, program, shared)
            except RunError as e:
                failure = e
            self.load = meter.taken()
            if failure is None:
                return report
            if not self.load.disturbs or number == TRIES - 1:
                busy = f". The machine is busy ({self.load}): end other programs" if self.load.disturbs else ""
                raise RunError(f"{failure}{busy}. The output is in {self._keep_output()}")

    def _run_once(self, test, args, seconds, program, shared):
        self.runs += 1
        self.programs = []
        report = self.directory / f"{self.runs}.json"
        args = [*(SHARED_CORES if shared else ()), *map(str, args)]
        written = f"--out_json_file={report}"
        if not self.two_processes:
            self._start(program, test, self._eal(0), "--back-to-back", *args, written)
            self._wait(test, seconds)
        else:
            ends = [f"role={role},socket={self.directory}/{self.runs}.sock" for role in ("server", "client")]
            args = ["-p", str(free_port()), *(() if shared else ("--idle", "busy")), *args]
            try:
                self._start(program, test, self._eal(0, f"--vdev=net_memif0,{ends[0]}"), *args)
                self._start(program, test, self._eal(1, f"--vdev=net_memif0,{ends[1]}"), *args, written, "127.0.0.1")
            finally:
                self._wait(test, seconds)
        results = json.loads(report.read_text())["results"]
        return results[0] if isinstance(results, list) else results

    def _eal(self, index, *devices):
        pages = [] if self.huge else ["--no-huge"]
        prefix = f"--file-prefix=uroce-pair-{os.getpid()}-{self.runs}-{index}"
        return ["-l", str(self.cores[index]), "--no-pci", "--no-telemetry", "--in-memory", *pages, "-m", str(MEMORY_MB), prefix,
                *devices]

    def _start(self, name, test, eal, *args):
        log = tempfile.NamedTemporaryFile(dir=self.directory, suffix=".log", delete=False)
        # No session of its own: with autogroups (sched(7)) a session is a scheduling group, and Linux 6.18 at times lets one
        # keep another from their CPU for seconds.
        program = subprocess.Popen([str(name or self.perf), test, *eal, "--", *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   process_group=0)
        program.log = pathlib.Path(log.name)
        self.programs.append(program)

    def _wait(self, test, seconds):
        """Returns when all programs have ended. Kills the rest after `seconds`, or soon after one has failed."""
        limit = time.monotonic() + seconds
        failed = False
        try:
            for program in reversed(self.programs):
                try:
                    program.wait(max(0.0, limit - time.monotonic()))
                except subprocess.TimeoutExpired:
                    failed = True
                if program.returncode != 0 and not failed:
                    failed, limit = True, min(limit, time.monotonic() + 5)  # the other one says more, or ends
            if failed:
                raise RunError(f"{test} failed: {self._reason()}")
        finally:
            for program in self.programs:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)
                    program.wait(10)

    def _reason(self):
        """The last line of the program that failed by itself, not because of the other."""
        said = []
        for program in self.programs:
            lines = [line.strip() for line in program.log.read_text(errors="replace").splitlines() if line.strip()]
            if program.poll() not in (None, 0):
                said.append(lines[-1] if lines else f"{program.args[0]} ended with exit code {program.returncode} and said nothing")
        own = [line for line in said if "the peer is gone" not in line and "the other side failed" not in line]
        return [f"{self.programs[0].args[0]} did not end in time", *said, *own][-1].removeprefix("uroce_perf: ").rstrip(".")

    def _keep_output(self):
        """Keeps what the programs of the last run said; the file's path."""
        return keep_output("\n".join(f"$ {' '.join(p.args)}\n(exit code {p.returncode})\n{p.log.read_text(errors='replace').strip()}\n"
                                     for p in self.programs), pathlib.Path(self.perf).parent)
