"""The CPU time that a measurement does not get: other programs, the host of a virtual machine or the limit of a container have it."""

import os
import pathlib
import resource
import time

TICK = os.sysconf("SC_CLK_TCK")
GROUPS = pathlib.Path("/sys/fs/cgroup")


def groups():
    """The cgroups of this process that may limit its CPU time, from the innermost on; of version 2 and of version 1."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        base = GROUPS if not controllers else GROUPS / "cpu"
        inner = base / path.strip("/")
        # In a container the path may be the host's: only what is mounted here can be read.
        yield from (folder for folder in [inner, *inner.parents] if folder.is_relative_to(base) and folder.is_dir())


def words(file):
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


def cpu_limit():
    """How many CPUs the cgroups give; infinity without a limit."""
    limits = [float("inf")]
    for group in groups():
        quota, period, *_ = [*words(group / "cpu.max"), *words(group / "cpu.cfs_quota_us"), *words(group / "cpu.cfs_period_us"),
                             "max", "1"]
        if quota not in ("max", "-1"):
            limits.append(int(quota) / int(period))
    return min(limits)


def throttled_s():
    """Seconds for which the cgroups have stopped threads of this process's groups."""
    total = 0.0
    for group in groups():
        facts = words(group / "cpu.stat")
        values = dict(zip(facts[::2], facts[1::2]))
        total += int(values.get("throttled_usec", 0)) / 1e6 + int(values.get("throttled_time", 0)) / 1e9
    return total


class Load:
    """The shares of the cores that others took meanwhile, from 0 to 1."""

    def __init__(self, cores, others, stolen, throttled):
        self.cores, self.others, self.stolen, self.throttled = cores, others, stolen, throttled
        self.average = os.getloadavg()[0]

    @property
    def total(self):
        return self.others + self.stolen + self.throttled

    @property
    def disturbs(self):
        return self.total > 0.1

    def __str__(self):
        names = " and ".join(map(str, self.cores))
        found = [(self.others, f"other programs took {self.others:.0%} of cores {names}"),
                 (self.stolen, f"the host of this machine took {self.stolen:.0%}"),
                 (self.throttled, f"the container's limit took {self.throttled:.0%}")]
        said = [text for share, text in found if share > 0.02] or [f"other programs took little of cores {names}"]
        return f"{', '.join(said)}; load {self.average:.1f}"


class Meter:
    """Measures a Load from its making to taken(). The time of this process's children is no load once they have ended and were
    waited for."""

    def __init__(self, cores):
        self.cores = cores
        self.begin = self._now()

    def taken(self):
        wall, busy, stolen, own, throttled = (now - then for now, then in zip(self._now(), self.begin))
        whole = max(wall, 1e-3) * len(self.cores)
        return Load(self.cores, *(min(1.0, max(0.0, seconds / whole)) for seconds in (busy - own, stolen, throttled)))

    def _now(self):
        busy = stolen = 0
        names = {f"cpu{core}" for core in self.cores}
        for line in pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines():
            name, *ticks = line.split()
            if name in names:
                user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
                busy += user + nice + system + irq + softirq
                stolen += steal
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), busy / TICK, stolen / TICK, children.ru_utime + children.ru_stime, throttled_s()


def sample(cores, seconds=0.3):
    """The Load of a moment in which this process does nothing."""
    meter = Meter(cores)
    time.sleep(seconds)
    return meter.taken()
