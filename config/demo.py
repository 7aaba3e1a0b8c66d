#!/usr/bin/env python3
"""The demo's runs and its table: demo.py FOLDER_OF_THE_BUILT_APPS [--save]. Called by demo.sh after the build. With --save the figures
go to tests/bench/results, from which tests/bench/report makes the documents."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pair

VERBS = (("WRITE", "write"), ("READ", "read"), ("SEND", "send"), ("FETCH_ADD", "atomic"))
SECONDS = "1"
START_SECONDS, RUN_SECONDS = 60, 300  # of a machine whose cores are taken


def say(text):
    print(f"== {text}", flush=True)


def verify(ends):
    """Moves real data with each verb and compares every byte."""
    for name, verb in VERBS:
        size = [] if verb == "atomic" else ["-s", "65536"]
        ends.run(f"{verb}_bw", "--verify", "-n", "2000", *size)
        say(f"verified {name}: " + ("2000 operations" if verb == "atomic" else "2000 messages of 64 KiB, every byte"))


def measure(ends, name, verb):
    """One row of the table."""
    row = [name]
    if verb == "atomic":
        row.append("-")
    else:
        row.append(f"{ends.measure(f'{verb}_bw', '-D', SECONDS, '-s', '65536', '-m', '4096', '--report_gbits')['BW_average']:.1f}")
    small = [] if verb == "atomic" else ["-s", "8"]
    row.append(f"{ends.measure(f'{verb}_bw', '-D', SECONDS, *small)['MsgRate']:.2f}")
    latency = ends.measure(f"{verb}_lat", "-D", SECONDS, *small)
    row += [f"{latency[key]:.2f}" for key in ("t_typical", "percentile_99")]
    say(f"measured {name}")
    return row


class Daemon:
    """uroced --demo while the block runs, and programs on its two devices."""

    def __init__(self, apps, directory):
        self.run = str(apps / "uroce-run" / "uroce-run")
        self.socket = str(directory / "uroced.sock")
        self.log = directory / "uroced.log"
        self.env = {**os.environ, "UROCE_SOCKET": self.socket}
        self.uroced = str(apps / "uroced" / "uroced")
        self.apps = apps

    def __enter__(self):
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([self.uroced, "--demo", "--socket", self.socket], stdout=log, stderr=log)
        limit = time.monotonic() + START_SECONDS
        while "serving" not in (said := self.log.read_text(errors="replace")):
            if self.process.poll() is not None or time.monotonic() > limit:
                self.process.kill()
                last = said.strip().rsplit("\n", 1)[-1] or "it says nothing"
                raise pair.RunError(f"uroced --demo did not start: {last}. The output is in {pair.keep_output(said, self.apps)}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def pair(self, *command):
        """The output of an unmodified program's client on uroce1; its server runs on uroce0."""
        for _ in range(pair.TRIES):
            server, client = self._pair_once(command)
            if pair.CLOCK_UNKNOWN not in server.output() + client.output():
                break
        failed = client if client.returncode else server
        if failed.returncode:
            how = "did not end in time" if failed.returncode < 0 else f"failed with exit code {failed.returncode}"
            last = failed.output().strip().rsplit("\n", 1)[-1]
            text = f"--- the client\n{client.output()}\n--- the server\n{server.output()}\n--- uroced\n{self.log.read_text(errors='replace')}"
            raise pair.RunError(f"{' '.join(command)} {how}: {last}. The output is in {pair.keep_output(text, self.apps)}")
        return client.output()

    def _pair_once(self, command):
        """Server and client, which have ended."""
        port = str(pair.free_port())
        server = self._start("server", *command, "-d", "uroce0", "-p", port)
        limit = time.monotonic() + START_SECONDS
        while not pair.listens(int(port)) and server.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        client = self._start("client", *command, "-d", "uroce1", "-p", port, "127.0.0.1")
        for program, seconds in ((client, RUN_SECONDS), (server, START_SECONDS)):
            try:
                program.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait(START_SECONDS)
        return server, client

    def _start(self, name, *command):
        log = self.log.with_name(f"{name}.log")
        with log.open("wb") as out:
            program = subprocess.Popen([self.run, *command], env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, process_group=0)
        program.output = lambda: log.read_text(errors="replace")
        return program


def unmodified(apps):
    """Runs unmodified verbs programs on the daemon."""
    with tempfile.TemporaryDirectory(prefix="uroce-demo-") as directory, Daemon(apps, pathlib.Path(directory)) as daemon:
        for command in (("ib_write_bw", "-s", "65536", "-n", "2000", "--report_gbits"),
                        ("ibv_rc_pingpong", "-g", "0", "-n", "1000")):
            said = daemon.pair(*command)
            lines = [line for line in said.splitlines() if line.strip() and not set(line.strip()) <= {"-"}]
            print(f"\n$ uroce-run {' '.join(command)} -d uroce1 127.0.0.1")
            print("\n".join(lines[-2:]))


def table(rows):
    """Figures as text, under their heads."""
    head = ["", "64 KiB, Gb/s", "8 B, M msg/s", "8 B latency, us", "99 %, us"]
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
                     for row in [head, *rows])


def save(rows, setting):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "bench"))
    import results
    cells = [results.cell(row[0], column, float(text)) for row in rows
             for column, text in zip(("gbps", "mps", "us", "us_99"), row[1:]) if text != "-"]
    results.write("demo", cells, {**results.this_run(), "setting": setting})


def main():
    begin = time.monotonic()
    apps = pathlib.Path(sys.argv[1])
    with pair.Pair(apps / "uroce_perf") as ends:
        say(f"{ends}")
        if ends.load.disturbs:
            say(f"the machine is busy ({ends.load}): this takes longer, and the figures are not those of a quiet one")
        try:
            verify(ends)
            rows = [measure(ends, name, verb) for name, verb in VERBS]
        except pair.RunError as e:
            sys.exit(f"error: {e}")
    setting = f"{ends}; {pair.cpu_model()}; path MTU 4096; latency is half a round trip; {time.monotonic() - begin:.0f} s"
    print(f"\n{table(rows)}\n\n{setting}")
    if ends.note():
        print(ends.note())
    if "--save" in sys.argv[2:]:
        save(rows, setting)
    try:
        unmodified(apps)
    except pair.RunError as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
