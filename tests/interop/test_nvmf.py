#!/usr/bin/env python3
"""Linux's own NVMe initiator over RDMA, in a guest, on disks of uroce_nvmf, and of Linux's own target to compare.

test_nvmf.py [part of a case's name]...
"""

import os
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import guest as guests  # noqa: E402
import harness  # noqa: E402
import nvme  # noqa: E402
import rig as rigs  # noqa: E402
import storage  # noqa: E402


SEED = int(os.environ.get("UROCE_SEED", "1"))
RESTARTS = 3


class Uroce(nvme.AnyTarget, nvme.UroceCase):
    def test_hosts_that_may_connect(self):
        self.start_target("--allow-host", nvme.HOST)
        self.connect(host=nvme.OTHER_HOST, code=1)
        self.assertNotIn(nvme.SUBSYSTEM, self.discover(nvme.OTHER_HOST))
        self.connect()
        self.disconnect()

    def test_ipv6(self):
        self.address = rigs.addresses(self.wire, "host")[1]
        self.start_target()
        self.assertIn(nvme.SUBSYSTEM, self.discover())
        device = self.connect()
        self.fio(device, "1m")
        self.compare_bytes(device, 1)
        self.disconnect()

    def test_tools(self):
        """nvme-cli gets an answer to each of its questions."""
        self.start_target()
        device = self.connect()
        self.assertRegex(self.guest_run("nvme list"), rf"{device} .* uroce_nvmf ")
        self.assertIn(f"traddr={self.address}", self.guest_run("nvme list-subsys"))
        self.assertRegex(self.guest_run(f"nvme smart-log {device}"), r"critical_warning\s*: 0")
        self.assertRegex(self.guest_run(f"nvme error-log {device}"), r"error_count\s*: 0")
        self.guest_run(f"nvme fw-log {device} && nvme changed-ns-list-log {device}")
        self.guest_run(f"nvme get-property {device} -o 0x1c -H && nvme get-property {device} -o 0x20")
        for feature in ("1", "2", "4", "5", "6", "7", "0xa", "0xb", "0xf"):
            self.assertIn("urrent value", self.guest_run(f"nvme get-feature {device} -f {feature} -H"))
        self.guest_run(f"nvme set-feature {device} -f 4 -v 330")
        self.assertRegex(self.guest_run(f"nvme get-feature {device} -f 4"), "0x0*14a")
        self.disconnect()

    def test_many_connects(self):
        self.start_target()
        for _ in range(4):
            self.connect("--nr-io-queues=1")
            self.disconnect()
        self.target.process.terminate()
        self.assertEqual(self.target.wait(20), 0, str(self.target))


class OwnStack(nvme.UroceCase):
    """The target's stack is in its own process, on an interface of the kernel, with two lcores."""

    wire = 4
    interface = "wire4"
    prefixes = (24, 64)

    def start_target(self, *options):
        lcores = [f"--lcores=(0,1)@{harness.CPUS[-1]}", *harness.eal()[2:], "--"]
        own = ",".join(f"{address}/{bits}" for address, bits in zip(self.own_addresses(), self.prefixes))
        super().start_target("--interface", self.interface, "--address", own, "--port-mtu", guests.MTU, *options,
                             eal=lcores)

    def own_addresses(self):
        return rigs.addresses(self.wire, "host")


class InProcess(nvme.AnyTarget, OwnStack):
    def test_both_lcores_serve(self):
        self.start_target()
        # Writes, reads and polled reads have a queue each.
        device = self.connect("--nr-write-queues=1 --nr-poll-queues=1")
        self.fio(device)
        self.disconnect()
        self.target.process.terminate()
        self.assertEqual(self.target.wait(20), 0, str(self.target))
        did = re.findall(r"reactor \d+: (\d+) I/O queues, (\d+) commands", self.target.output)
        self.assertEqual([int(queues) for queues, _ in did], [2, 1])
        self.assertGreater(min(int(commands) for _, commands in did), 1000, did)


class Restarts:
    """A target that is killed and started again: the host reconnects by itself."""

    def test_idle(self):
        self.start_target()
        files = self.make_file_system()
        files.write("before")
        self.target.kill()
        self.start_target()
        files.write("after")
        files.unmount()
        files.check()
        self.disconnect()
        self.compare(files)

    def test_under_io(self):
        self.start_target()
        device = self.connect()
        fio = self.start_fio(device, 16)
        for _ in range(RESTARTS):
            self.await_io()
            self.target.kill()
            self.start_target()
        self.assertEqual(fio.finish(), 0, f"{fio}\n{self.target}")
        self.compare_bytes(device, 16)
        self.disconnect()

    def test_wire_that_is_cut(self):
        """Longer than both sides wait for each other."""
        self.start_target()
        device = self.connect()
        fio = self.start_fio(device, 8)
        self.await_io()
        harness.ip("link", "set", f"wire{self.wire}", "down")
        self.addCleanup(harness.ip, "link", "set", f"wire{self.wire}", "up")
        self.guest_run("until grep -q connecting /sys/class/nvme/nvme*/state; do sleep 0.1; done", 60)
        harness.ip("link", "set", f"wire{self.wire}", "up")
        self.assertEqual(fio.finish(), 0, f"{fio}\n{self.target}")
        self.compare_bytes(device, 8)
        self.disconnect()
        self.assertIsNone(self.target.process.poll(), str(self.target))


class Restart(Restarts, nvme.UroceCase):
    """The daemon survives, and tells the host that the target's connections have ended."""


class RestartOwnStack(Restarts, OwnStack):
    """Nobody tells the host. The next process has other queue pairs."""

    def test_another_path_before_the_host_notices(self):
        """The host still has the first target's controller. It takes no other one of the same id."""
        self.listen = "::"
        self.start_target()
        device = self.connect("--keep-alive-tmo=20")
        self.target.kill()
        self.start_target()
        self.address = rigs.addresses(self.wire, "host")[1]
        self.connect()
        self.fio(device, "1m")
        self.compare_bytes(device, 1)
        self.guest_run("while grep -qv live /sys/class/nvme/nvme*/state; do sleep 0.1; done", 90)
        self.disconnect()


class Faults:
    """Through a relay that loses, repeats and reorders frames. After a retry, rxe repeats a registration of memory, which then
    fails (see README.md), so that the host's connection ends. The host waits for its commands, and reconnects."""

    wire = 2
    SECONDS = 3  # that the host waits for a command; its default is 30

    def setUp(self):
        super().setUp()
        self.addCleanup(self.rig.set_faults)
        timeout = "/sys/module/nvme_core/parameters/io_timeout"
        before = self.guest_run(f"cat {timeout}; echo {self.SECONDS} >{timeout}").strip()
        self.addCleanup(self.guest_run, f"echo {before} >{timeout}")

    def run_case(self, size, **faults):
        self.start_target()
        device = self.connect("--nr-io-queues=1")
        self.rig.set_faults(seed=SEED, **faults)
        self.fio(device, size)
        files = storage.FileSystem(self, device)
        files.make()
        files.mount()
        files.write("lossy", files=2)
        files.verify()
        files.unmount()
        done = self.rig.set_faults()
        self.assertGreater(sum(done.values()), 0, done)
        files.check()
        self.disconnect()
        self.compare(files)

    def test_faults_of_the_target(self):
        """Data, commands' ends and acknowledgements."""
        self.run_case("2m", of="far2", lose=0.01, repeat=0.02, delay=0.02)

    def test_restart_meanwhile(self):
        self.start_target()
        device = self.connect("--nr-io-queues=1")
        self.rig.set_faults(seed=SEED, of="far2", lose=0.01, repeat=0.02, delay=0.02)
        fio = self.start_fio(device, 4)
        self.await_io()
        self.target.kill()
        self.start_target()
        self.assertEqual(fio.finish(), 0, f"{fio}\n{self.target}")
        self.assertGreater(min(self.rig.set_faults().values()), 0)
        self.compare_bytes(device, 4)
        self.disconnect()

    def test_faults_of_both(self):
        self.run_case("1m", lose=0.0005, repeat=0.02, delay=0.0005)


class Lossy(Faults, nvme.UroceCase):
    pass


class LossyOwnStack(Faults, OwnStack):
    """Beside the daemon, on the interface that the daemon's device has there."""

    interface = "near2"

    def own_addresses(self):
        return [address + "1" for address in super().own_addresses()]

    def target_address(self):
        return self.own_addresses()[0]


class Linux(nvme.AnyTarget, nvme.Case):
    """Linux's own target (nvmet), in the same guest, by way of rxe to itself. A case that fails here is wrong itself."""

    ROOT = "/sys/kernel/config/nvmet"

    def target_address(self):
        return rigs.addresses(self.wire, "guest")[0]

    def start_target(self):
        subsystem, port = f"{self.ROOT}/subsystems/{nvme.SUBSYSTEM}", f"{self.ROOT}/ports/1"
        self.addCleanup(self.stop_target, subsystem, port)
        self.guest_run(
            f"[ -d {self.ROOT} ] || mount -t configfs none /sys/kernel/config; truncate -s {nvme.DISK_MIB}M /run/nvmet && "
            f"mkdir {subsystem} && echo 1 >{subsystem}/attr_allow_any_host && mkdir {subsystem}/namespaces/1 && "
            f"cd {subsystem}/namespaces/1 && echo 1 >buffered_io && echo /run/nvmet >device_path && echo 1 >enable && "
            f"mkdir {port} && cd {port} && echo rdma >addr_trtype && echo ipv4 >addr_adrfam && "
            f"echo {self.address} >addr_traddr && echo {nvme.PORT} >addr_trsvcid && ln -s {subsystem} subsystems/")

    def stop_target(self, subsystem, port):
        self.leave()
        self.rig.guest.start(
            f"rm {port}/subsystems/*; rmdir {port} {subsystem}/namespaces/1 {subsystem}; rm /run/nvmet", 60).finish()

    def compare(self, files):
        """The backing file, in the guest."""
        self.guest_run("e2fsck -fn /run/nvmet")

    def compare_bytes(self, device, mib):
        self.guest_run(f"sync -d /run/nvmet; cmp -n {mib << 20} {device} /run/nvmet")


if __name__ == "__main__":
    reason = storage.missing(("nvme", "nvme-cli"), ("fio", "fio"), ("mkfs.ext4", "e2fsprogs"))
    if reason:
        print(f"1..1\nok 1 nvmf # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
