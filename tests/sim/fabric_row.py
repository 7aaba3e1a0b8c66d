"""The row of tests/sim/README.md that has 1,000 hosts."""

from fabric_runs import SIZES, FabricRun, draw_by_size
from pages import Goal, head_of, row_of


class Fabric:
    """Completion times of published traffic on a leaf-spine fabric."""

    name = "fabric"
    title = "1,000 hosts: slowdown by flow size"
    program = "uroce_fabric"
    note = ("50 leaves with 20 hosts of 100 Gb/s each, 10 spines, 200 Gb/s between them, 1 us a link, 32 MB of buffer a switch, ECN; "
            "seed 1. A slowdown is a flow's time, divided by that in an empty fabric.")
    most_seconds, most_mib = 1800, 16384

    def __init__(self):
        def run(ms, name, *options):
            return FabricRun(name, *" ".join(map(str, options)).split(), ms=ms)

        search = "--traffic websearch --load 0.5"
        self.long = [run(10, f"websearch, {control}", search, "--control", control) for control in ("dcqcn", "swift")]
        self.controls = [run(2, f"websearch, {name}", search, options) for name, options in {
            "none": "--control none", "dcqcn": "--control dcqcn", "swift": "--control swift", "swift, 16 ports": "--control swift --spray 16",
            "dcqcn, ring of 64": "--control dcqcn --tx-ring 64"}.items()]
        self.recoveries = [run(2, f"loss 1e-4, {recovery}", search, "--control dcqcn --loss 1e-4 --recovery", recovery)
                           for recovery in ("go-back-n", "selective", "onlies")]
        self.recoveries.append(run(2, "PFC, go-back-n", search, "--control dcqcn --pfc --timeout 14 --recovery go-back-n"))
        self.failed = run(2, "25 links fail, swift", search, "--control swift --fail 25 --fail-at 0.5 --reroute 0.5")
        self.others = [run(2, f"{name}, {control}", options, "--control", control)
                       for name, options in {"storage": "--traffic storage --load 0.5",
                                             "incast": "--traffic incast --load 0.3",
                                             "all-to-all": "--traffic all-to-all --size 512K"}.items()
                       for control in ("dcqcn", "swift")]
        self.runs = [*self.long, *self.controls, *self.recoveries, self.failed, *self.others]

    def goals(self):
        seconds = max(run.summary["cost"]["cpu_s"] for run in self.runs)
        mib = max(run.summary["cost"]["mib"] for run in self.runs)
        lost = sum(run.summary["flows"]["failed"] for run in self.runs)
        return [Goal("most CPU seconds of a run", f"≤ {self.most_seconds}", f"{seconds:.0f}", seconds <= self.most_seconds),
                Goal("most memory of a run, MiB", f"≤ {self.most_mib}", mib, mib <= self.most_mib),
                Goal("flows failed", "0", lost, lost == 0)]

    def table(self):
        lines = head_of("run", "ms", "flows", "p50", *(f"p99 {size}" for size in SIZES), "p99.9", "Tb/s", "dropped", "sent again", "timeouts", "CPU s",
                        "MiB")
        for run in self.runs:
            flows, packets, cost = (run.summary[key] for key in ("flows", "packets", "cost"))
            shown = flows["begun"] if flows["done"] == flows["begun"] else f"{flows['done']} of {flows['begun']}"
            gone = packets["dropped"] + packets["lost"] + packets["cut"]
            p99 = [run.slowdown(size, "p99") for size in SIZES]
            lines.append(row_of(run.name, run.ms, shown, f"{run.slowdown('all', 'p50'):.2f}", *("" if x is None else f"{x:.1f}" for x in p99),
                                f"{run.slowdown('all', 'p999'):.1f}", f"{run.goodput / 1000:.1f}", gone, packets["again"], packets["timeouts"],
                                f"{cost['cpu_s']:.0f}", cost["mib"]))
        return lines

    def plot(self, plt):
        figure, (controls, recoveries) = plt.subplots(1, 2, figsize=(11, 5), sharey=True)
        draw_by_size(controls, self.controls)
        draw_by_size(recoveries, [*self.recoveries, self.failed])
        return figure
