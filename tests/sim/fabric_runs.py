"""Runs of uroce_fabric: their command, what came of them, what they cost, and how they are drawn."""

import json
import pathlib
import re
import subprocess

PROGRAM = "leaf_spine/uroce_fabric"
SIZES = ["up to 10 KB", "up to 100 KB", "up to 1 MB", "larger", "all"]


class FabricRun:
    """One plan: options of uroce_fabric."""

    def __init__(self, name, *options, hosts=1000, ms=10):
        self.name, self.hosts, self.ms = name, hosts, ms
        self.options = [str(option) for option in options]
        self.summary = None

    def command(self, quick=False):
        # A quick run has fewer hosts, at leaves of the same size.
        hosts, ms = (100, 1) if quick else (self.hosts, self.ms)
        return ["--hosts", str(hosts), "--ms", f"{ms:g}", *self.options]

    def run(self, beside, quick):
        """`beside`: the path of uroce_sim, in whose folder the program's is."""
        command = [str(pathlib.Path(beside).parent / PROGRAM), "--quiet", "--json", "-", *self.command(quick)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        self.summary = json.loads(done.stdout)
        # The cost is this machine's, all the rest the plan's.
        seconds, mib = re.search(r"([\d.]+) s of a core and (\d+) MiB", done.stderr).groups()
        self.summary["cost"] = {"cpu_s": float(seconds), "mib": int(mib)}

    @property
    def goodput(self):
        """Gb/s of frames that hosts took, on average over the traffic's time."""
        samples = self.summary["samples"]
        count = int(self.summary["plan"]["ms"] * 1000 / samples["interval_us"])
        return sum(samples["gbps"][:count]) / max(1, count)

    def slowdown(self, size, name):
        return next((bucket[name] for bucket in self.summary["slowdown"] if bucket["size"] == size), None)


def draw_by_size(axes, runs, name="p99"):
    """The slowdown over the flow's size, where sizes differ."""
    for run, marker in zip(runs, "osv^D<>"):
        steps = run.summary["steps"]
        if len({step["bytes"] for step in steps}) > 1:
            axes.plot([step["bytes"] for step in steps], [step[name] for step in steps], marker=marker, markersize=4,
                      linewidth=1, label=run.name)
    axes.set(xscale="log", yscale="log", xlabel="flow size, bytes", ylabel=f"slowdown, {name}")
    axes.legend(fontsize=8)


def draw_percentiles(axes, runs):
    """The percentiles of all flows together."""
    names = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "most"}
    for run, marker in zip(runs, "osv^D<>"):
        axes.plot(list(names.values()), [run.slowdown("all", name) for name in names], marker=marker, markersize=4,
                  linewidth=1, label=run.name)
    axes.set(yscale="log", ylabel="slowdown")
    axes.legend(fontsize=8)


def draw_time(axes, run):
    """The rate of arrivals and the bytes in the fullest switch, over time."""
    samples = run.summary["samples"]
    times = [(i + 1) * samples["interval_us"] / 1000 for i in range(len(samples["gbps"]))]
    axes.plot(times, [gbps / 1000 for gbps in samples["gbps"]], label="arrived, Tb/s", linewidth=1)
    axes.plot(times, [held / 1e6 for held in samples["buffered"]], label="fullest switch, MB", linewidth=1)
    axes.set(xlabel="ms", ylim=(0, None))
    axes.legend(fontsize=8)
