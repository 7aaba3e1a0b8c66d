#!/usr/bin/env python3
"""Two devices joined by rings inside one process; engines that share a core; many QPs."""

import harness
from harness import IDLE, eal


class BackToBack(harness.Case):
    def run_test(self, test, *args, lcores="0", **kw):
        return self.run_perf(test, eal(lcores=lcores), "--back-to-back", "--verify", *args, **kw)

    def test_each_verb(self):
        for test in ("write_bw", "read_bw", "send_bw", "flush_bw"):
            self.run_test(test, *IDLE, "-m", "4096", "-s", "65536", "-n", "500")
        self.run_test("atomic_bw", *IDLE, "-n", "2000")

    def test_each_verb_latency(self):
        for verb in ("write", "read", "send", "atomic", "flush"):
            self.run_test(f"{verb}_lat", *IDLE, "-n", "500")

    def test_completions_behind_the_answers(self):
        """The last completion of a message may come after the next message has left."""
        rules = self.directory / "rules"
        rules.write_text("batch 2\n")
        for test in ("write_lat", "send_lat"):
            self.run_test(test, *IDLE, "-n", "200", "--faults", rules)

    def test_payload_copied(self):
        self.run_test("write_bw", *IDLE, "--tx-mode", "copy", "-s", "65536", "-n", "300")

    def test_worker_lcores_on_the_cores_there_are(self):
        cores = ",".join(map(str, harness.CPUS[:2])) if len(harness.CPUS) > 1 else f"(0,1)@{harness.CPUS[0]}"
        for idle in ("yield", "sleep"):
            self.run_test("write_bw", "--idle", idle, "-s", "65536", "-n", "500", lcores=cores)

    def test_completion_events(self):
        lcores = f"(0,1)@{harness.CPUS[0]}"
        self.run_perf("send_bw", ["--lcores", lcores, *eal()[2:]], "--back-to-back", "--verify", "-e", *IDLE, "-s", "4096", "-n", "500")

    def test_ten_thousand_qps(self):
        report = self.run_test("write_bw", *IDLE, "-q", "10000", "-n", "5", "-t", "1", "-s", "64", seconds=180)
        self.assertTrue(report)


class OneCore(harness.Case):
    """Two processes, one core: with `yield` and `sleep` both make progress."""

    def pair(self, idle):
        socket = self.directory / f"{idle}.sock"
        core = str(harness.CPUS[0])
        return self.run_pair(
            "write_bw",
            eal(f"--vdev=net_memif0,role=server,socket={socket}", lcores=core),
            eal(f"--vdev=net_memif0,role=client,socket={socket}", lcores=core),
            "--verify", "--idle", idle, "-s", "65536", "-n", "300", seconds=90)

    def test_yield(self):
        self.pair("yield")

    def test_sleep(self):
        self.pair("sleep")


if __name__ == "__main__":
    harness.main()
