"""The row of tests/sim/README.md that has 1,000 hosts."""

from fabric_runs import SIZES, FabricRun, draw_by_size
from pages import Goal, head_of, row_of


class Fabric:
    """Completion times of published traffic on a leaf-spine fabric."""

    name = "fabric"
    title = "1,000 hosts: slowdown by flow size"
    program = "uroce_fabric"
    note = ("50 leaves with 20 hosts of 100 Gb/s, 10 spines, 200 Gb/s between (20 if slow), 1 us a link, 32 MB a switch, seed 1. Percentiles are of the "
            "slowdown, post to completion over that in an empty fabric.")
    most_seconds, most_mib = 1800, 16384
    loads = {"websearch": "--load 0.5", "storage": "--load 0.5", "incast": "--load 0.3", "all-to-all": "--size 512K"}

    def __init__(self):
        def run(traffic, control, recovery="onlies", also="", ms=2, options=""):
            one = FabricRun(", ".join(filter(None, (control, recovery, also))), "--traffic", traffic, *self.loads[traffic].split(),
                            "--control", control, "--recovery", recovery, *options.split(), ms=ms)
            one.cells = (traffic, ms, control, recovery, also)
            one.name = f"{traffic}, {ms} ms, {one.name}"
            return one

        loss = {"also": "loss 1e-4", "options": "--loss 1e-4"}
        self.long = [run("websearch", control, ms=10) for control in ("dcqcn", "swift")]
        self.controls = [*(run("websearch", control) for control in ("none", "dcqcn", "swift")),
                         run("websearch", "swift", also="16 ports", options="--spray 16"),
                         run("websearch", "dcqcn", also="ring 64", options="--tx-ring 64")]
        self.recoveries = [*(run("websearch", "dcqcn", recovery, **loss) for recovery in ("go-back-n", "selective", "onlies")),
                           run("websearch", "dcqcn", "go-back-n", also="PFC", options="--pfc --timeout 14")]
        self.failed = run("websearch", "swift", also="25 dead links", options="--fail 25 --fail-at 0.5 --reroute 0.5")
        slow = "--slow 25 --slow-rate 20"
        self.paths = [run("websearch", control, also=f"25 slow links{f', PLB {plb}' if plb else ''}", options=f"{slow} --plb {plb}")
                      for control, plb in (("dcqcn", 0), ("dcqcn", 3), ("dcqcn", 1), ("swift", 0), ("swift", 3))]
        self.others = [run(traffic, control) for traffic in ("storage", "incast", "all-to-all") for control in ("dcqcn", "swift")]
        self.runs = [*self.long, *self.controls, *self.recoveries, self.failed, *self.paths, *self.others]

    @staticmethod
    def measured(runs):
        """Those that have a result: each can be run and kept alone."""
        return [run for run in runs if run.summary]

    def goals(self):
        seconds = max(run.summary["cost"]["cpu_s"] for run in self.measured(self.runs))
        mib = max(run.summary["cost"]["mib"] for run in self.measured(self.runs))
        return [Goal("CPU seconds of a run", f"≤ {self.most_seconds}", f"{seconds:.0f}", seconds <= self.most_seconds),
                Goal("MiB of a run", f"≤ {self.most_mib}", mib, mib <= self.most_mib)]

    def table(self):
        lines = head_of("traffic", "ms", "control", "recovery", "with", "flows", "p50", "p99", "p99.9", *(f"p99{size}" for size in ("≤10KB", "≤100KB", "≤1MB", ">1MB")),
                        "Tb/s", "dropped", "resent", "CPU s", "MiB")
        for run in self.measured(self.runs):
            flows, packets, cost = (run.summary[key] for key in ("flows", "packets", "cost"))
            shown = flows["begun"] if flows["done"] == flows["begun"] else f"{flows['done']}/{flows['begun']}"
            gone = packets["dropped"] + packets["lost"] + packets["cut"]
            p99 = [run.slowdown(size, "p99") for size in SIZES[:-1]]
            lines.append(row_of(*run.cells, shown, f"{run.slowdown('all', 'p50'):.2f}",
                                *(f"{run.slowdown('all', name):.1f}" for name in ("p99", "p999")),
                                *("" if x is None else f"{x:.1f}" for x in p99), f"{run.goodput / 1000:.1f}", gone, packets["again"],
                                f"{cost['cpu_s']:.0f}", cost["mib"]))
        return lines

    def plot(self, plt):
        figure, (controls, recoveries) = plt.subplots(1, 2, figsize=(11, 5), sharey=True)
        draw_by_size(controls, self.measured(self.controls))
        draw_by_size(recoveries, self.measured([*self.recoveries, self.failed]))
        return figure
