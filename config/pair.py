"""Runs uroce_perf between two endpoints on this machine: two processes joined by memif if there are two cores, else two
devices joined by rings in one process. The demo and tests/bench use it."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

MEMORY_MB = 256


class RunError(Exception):
    """A run failed; the text has its command and output."""


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


class Pair:
    """Two endpoints. A context manager, which removes its folder at the end."""

    def __init__(self, perf):
        self.perf = str(perf)
        self.cores = sorted(os.sched_getaffinity(0))
        self.two_processes = len(self.cores) > 1
        self.huge = free_hugepages() * 2 >= 2 * MEMORY_MB
        self.runs = 0

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-pair-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def __str__(self):
        joined = (f"two processes joined by memif, one busy core each (cores {self.cores[0]} and {self.cores[1]})"
                  if self.two_processes else "two devices joined by rings in one process on one core")
        return f"{joined}, {'2 MiB hugepages' if self.huge else '4 KiB pages'}"

    def run(self, test, *args, seconds=60, program=None):
        """The report of one run of uroce_perf, or of `program`: the first entry of its results. Raises RunError."""
        self.runs += 1
        report = self.directory / f"{self.runs}.json"
        args = [*map(str, args), f"--out_json_file={report}"]
        if not self.two_processes:
            self._wait([self._start(program, test, self._eal(0), "--back-to-back", *args)], seconds)
        else:
            ends = [f"role={role},socket={self.directory}/{self.runs}.sock" for role in ("server", "client")]
            port = ["-p", str(free_port()), "--idle", "busy"]
            programs = [self._start(program, test, self._eal(0, f"--vdev=net_memif0,{ends[0]}"), *port, *args[:-1])]
            try:
                client = self._eal(1, f"--vdev=net_memif0,{ends[1]}")
                programs.append(self._start(program, test, client, *port, *args, "127.0.0.1"))
            finally:
                self._wait(programs, seconds)
        results = json.loads(report.read_text())["results"]
        return results[0] if isinstance(results, list) else results

    def _eal(self, index, *devices):
        pages = [] if self.huge else ["--no-huge"]
        prefix = f"--file-prefix=uroce-pair-{os.getpid()}-{self.runs}-{index}"
        return ["-l", str(self.cores[index]), "--no-pci", "--no-telemetry", "--in-memory", *pages, "-m", str(MEMORY_MB), prefix,
                *devices]

    def _start(self, name, test, eal, *args):
        log = tempfile.NamedTemporaryFile(dir=self.directory, suffix=".log", delete=False)
        program = subprocess.Popen([str(name or self.perf), test, *eal, "--", *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        program.log = pathlib.Path(log.name)
        return program

    def _wait(self, programs, seconds):
        """Returns when all programs have ended. Kills the rest after `seconds`, or once one has failed."""
        failed = None
        try:
            for program in reversed(programs):
                try:
                    if program.wait(seconds) != 0:
                        failed = f"exit code {program.returncode}"
                except subprocess.TimeoutExpired:
                    failed = f"no end after {seconds} s"
                if failed:
                    break
        finally:
            for program in programs:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)
                    program.wait(10)
        if failed:
            said = "\n".join(f"$ {' '.join(p.args)}\n{p.log.read_text(errors='replace').strip()}" for p in programs)
            raise RunError(f"{failed}\n{said}")
