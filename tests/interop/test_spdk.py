#!/usr/bin/env python3
"""SPDK's programs, unmodified, under uroce-run on the demo's devices: its host on its own target, and on uroce_nvmf.
tests/interop/spdk.py builds them once.

UROCE_SPDK names the folder of that build. UROCE_SPDK_RUNS=100 repeats SPDK's benchmark that often."""

import json
import os
import pathlib
import re
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import harness  # noqa: E402
import spdk  # noqa: E402
import verbs  # noqa: E402

SPDK = pathlib.Path(os.environ.get("UROCE_SPDK", harness.BUILD / "interop-spdk")).resolve()
RUNS = int(os.environ.get("UROCE_SPDK_RUNS", "10"))
UROCE_NVMF = harness.BUILD / "apps" / "nvmf" / "uroce_nvmf"
SUBSYSTEM = "nqn.2026-01.example:disks"
ADDRESS = "10.117.0.2"  # the second device's
DISK_MIB = 64
TARGET_MIB, HOST_MIB = 256, 128  # of hugepages, without which SPDK does not start
READS = ("-q", "1", "-o", "4096", "-w", "randread")
TOTAL = r"(?m)^Total +: +([\d.]+) "  # requests a second


def settings_of_target(port):
    """The file of SPDK's --json: a disk in memory, which every host may have."""
    calls = {
        "bdev": [("bdev_malloc_create", {"name": "disk", "num_blocks": DISK_MIB << 11, "block_size": 512})],
        "nvmf": [
            ("nvmf_create_transport", {"trtype": "RDMA"}),
            ("nvmf_create_subsystem", {"nqn": SUBSYSTEM, "allow_any_host": True, "serial_number": "1"}),
            ("nvmf_subsystem_add_ns", {"nqn": SUBSYSTEM, "namespace": {"bdev_name": "disk"}}),
            ("nvmf_subsystem_add_listener", {"nqn": SUBSYSTEM, "listen_address": {
                "trtype": "RDMA", "adrfam": "IPv4", "traddr": ADDRESS, "trsvcid": str(port)}}),
        ],
    }
    return {"subsystems": [{"subsystem": name, "config": [{"method": method, "params": params} for method, params in rows]}
                           for name, rows in calls.items()]}


class Spdk(verbs.Case):
    # The daemon and two programs that spin share two cores.
    daemon_args = ("--idle", "sleep")

    def setUp(self):
        if not spdk.complete(SPDK):
            self.skipTest(f"SPDK is not built; tests/interop/spdk.py {SPDK} fetches and builds it")
        pages = (TARGET_MIB + HOST_MIB) // 2
        if os.geteuid() != 0 or harness.free_hugepages() < pages:
            self.skipTest(f"SPDK wants root and {pages} free hugepages of 2 MiB; config/hugepages.sh reserves them")
        super().setUp()
        self.port = harness.free_port()

    def start_spdk_target(self):
        settings = self.directory / "target.json"
        settings.write_text(json.dumps(settings_of_target(self.port)))
        target = self.under(SPDK / "nvmf_tgt", "--no-pci", "-s", TARGET_MIB, "-m", f"[{harness.CPUS[0]}]", "--disable-cpumask-locks",
                            "-r", self.directory / "rpc.sock", "--json", settings)
        target.wait_for(f"Target Listening on {ADDRESS} port {self.port}", 60)
        return target

    def start_uroce_target(self, *options):
        target = self.start([UROCE_NVMF, "--daemon", "--nqn", SUBSYSTEM, "--namespace", f"memory:{DISK_MIB}M", "--listen", ADDRESS,
                             "--port", self.port, *options], env=self.env)
        target.wait_for("serving", 60)
        return target

    def end(self, target):
        target.process.terminate()
        return self.finish(target, 60)

    def where(self, *more):
        """SPDK's words for the target. They name no host, so that the host's NQN is empty."""
        return " ".join(["trtype:RDMA", "adrfam:IPv4", f"traddr:{ADDRESS}", f"trsvcid:{self.port}", *more])

    def start_perf(self, seconds, *options):
        return self.under(SPDK / "perf", *(options or READS), "-t", seconds, "-s", HOST_MIB, "-c", hex(1 << harness.CPUS[-1]),
                          "-r", self.where())

    def run_perf_of_spdk(self, seconds, *options):
        """Requests a second. It ends with 0 also where it found no disk."""
        said = self.finish(self.start_perf(seconds, *options), 60 + seconds)
        found = re.search(TOTAL, said)
        self.assertTrue(found and float(found[1]) > 0, said)
        return float(found[1])

    def repeat(self):
        """A host that ends while its connection still rests hung, in some runs of seven."""
        for number in range(RUNS):
            with self.subTest(run=number):
                self.run_perf_of_spdk(1)

    def test_host_ends(self):
        target = self.start_spdk_target()
        self.repeat()
        self.end(target)

    def test_host_ends_at_uroce(self):
        target = self.start_uroce_target()
        self.repeat()
        self.end(target)

    def test_uroce_serves_spdk(self):
        target = self.start_uroce_target()
        said = self.finish(self.under(SPDK / "identify", "-d", HOST_MIB, "-r", self.where(f"subnqn:{SUBSYSTEM}")), 60)
        self.assertIn(f"controller at {ADDRESS}:{self.port}: {SUBSYSTEM}", said)
        self.assertRegex(said, rf"Size \(in LBAs\): +{DISK_MIB << 11} ")
        self.assertNotIn("failed", said)
        for options in (("-q", "32", "-o", "4096", "-w", "randrw", "-M", "50"), ("-q", "8", "-o", "131072", "-w", "write")):
            with self.subTest(options=options):
                self.run_perf_of_spdk(2, *options)
        commands = [int(found) for found in re.findall(r"(\d+) commands", self.end(target))]
        self.assertGreater(sum(commands), 100)

    def kill_under(self, target):
        """The host's benchmark ends, well or not."""
        before = self.counter("tx_packets")
        host = self.start_perf(300, "-q", "32", "-o", "4096", "-w", "randread")
        limit = time.monotonic() + 60 * harness.SLOW
        while self.counter("tx_packets") < before + 10_000:
            self.assertIsNone(host.process.poll(), str(host))
            self.assertLess(time.monotonic(), limit, f"no I/O: {host}")
        target.kill()
        host.wait(60)

    def test_spdk_target_dies(self):
        self.kill_under(self.start_spdk_target())

    def test_uroce_target_dies(self):
        self.kill_under(self.start_uroce_target())


if __name__ == "__main__":
    harness.main()
