#!/usr/bin/env python3
"""Linux's own iSER initiator (ib_iser), in a guest, on disks of Debian's tgtd on uroce.

test_iser.py [part of a case's name]...
"""

import os
import pathlib
import re
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import harness  # noqa: E402
import rig as rigs  # noqa: E402
import storage  # noqa: E402

TARGET = "iqn.2026-01.example:disk"
INITIATOR = "iqn.2026-01.example:initiator"
# Other runs on this machine have a tgtd of their own.
CONTROL = 32 + os.getpid() % 30000
LOGINS = 6
DISK_MIB = 64
SEED = int(os.environ.get("UROCE_SEED", "1"))
# The initiator's own liveness check, in seconds. Debian's settings have 5 for each.
PINGS = r"printf 'node.conn[0].timeo.noop_out_interval = 2\nnode.conn[0].timeo.noop_out_timeout = 3\n'"
LOGIN_REFUSED, NOTHING_FOUND = 19, 21  # exit codes, iscsiadm(8)


class Case(storage.Case):
    wire = 1
    initiator = None  # iscsid in the guest, since the first case

    def setUp(self):
        super().setUp()
        self.address = rigs.addresses(self.wire, "host")[0]
        self.image = self.directory / "disk"
        self.image.touch()
        os.truncate(self.image, DISK_MIB << 20)
        self.target = None
        self.prepare_initiator()

    def prepare_initiator(self):
        """Files where the initiator may write, and its daemon."""
        if Case.initiator is None:
            self.guest_run(f"mount -t tmpfs tmpfs /etc/iscsi && mkdir -p /run/lock/iscsi && {PINGS} >/etc/iscsi/iscsid.conf && "
                           f"echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi")
            Case.initiator = self.rig.guest.start("exec iscsid -f", 600)
            self.guest_run("until iscsiadm -m session 2>&1 | grep -q 'No active'; do sleep 0.1; done", 20)
        self.addCleanup(self.forget_target)

    def forget_target(self):
        """Ends sessions and records that a case has left."""
        self.rig.guest.start("iscsiadm -m node -U all; iscsiadm -m node -o delete", 60).finish()

    def start_target(self, pool_mib=128, addresses=("ALL",), names=(INITIATOR,)):
        command = [rigs.RUN, "tgtd", "-f", "-C", CONTROL, "--iser", f"port=3260,pool_sz_mb={pool_mib}"]
        self.target = self.start(command, env=self.rig.env)
        self.await_target()
        self.must("target", "new", "--targetname", TARGET)
        self.must("logicalunit", "new", "--lun", "1", "--backing-store", self.image)
        for address in addresses:
            self.must("target", "bind", "--initiator-address", address)
        for name in names:
            self.must("target", "bind", "--initiator-name", name)

    def await_target(self):
        limit = time.monotonic() + 20 * harness.SLOW
        while self.administer("target", "show").returncode:
            self.assertIsNone(self.target.process.poll(), f"it ended: {self.target}")
            self.assertLess(time.monotonic(), limit, f"it takes no commands: {self.target}")
            time.sleep(0.05)

    def administer(self, mode, operation, *options):
        tid = () if operation == "show" else ("--tid", "1")
        command = ["tgtadm", "-C", CONTROL, "--lld", "iser", "--mode", mode, "--op", operation, *tid, *options]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=30, check=False)

    def must(self, *command):
        done = self.administer(*command)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}\n{self.target}")

    def discover(self, code=0):
        return self.guest_run(f"iscsiadm -m discovery -t sendtargets -p {self.address}:3260 -I iser", code=code)

    def login(self, code=0):
        self.guest_run(f"iscsiadm -m node -T {TARGET} -I iser --login", 90, code)

    def logout(self):
        self.guest_run(f"iscsiadm -m node -T {TARGET} -I iser --logout", 90)

    def disk(self):
        """The guest's name of the target's disk."""
        found = self.guest_run("n=0; until iscsiadm -m session -P 3 | grep -o 'disk sd..*running'; do "
                               "n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; done", 60)
        return "/dev/" + re.search(r"sd\w", found)[0]

    def log_in(self):
        """Discovers the target, logs in and waits for the disk."""
        self.assertIn(TARGET, self.discover())
        self.login()
        return storage.FileSystem(self, self.disk())


class Disk(Case):
    def test_file_system(self):
        self.start_target()
        files = self.log_in()
        files.make()
        files.mount()
        files.write("first")
        files.unmount()
        files.check()
        self.logout()
        self.login()
        files.device = self.disk()
        files.mount()
        files.verify()
        files.write("second")
        files.unmount()
        files.check()
        self.logout()
        files.verify_on_host(self.image)

    def test_many_logins(self):
        self.start_target()
        self.discover()
        for _ in range(LOGINS):
            self.login()
            self.disk()
            self.logout()
        self.assertIsNone(self.target.process.poll(), str(self.target))

    def test_both_lists_of_initiators(self):
        self.start_target(addresses=(), names=())
        self.discover(NOTHING_FOUND)
        self.must("target", "bind", "--initiator-address", rigs.addresses(self.wire, "guest")[0])
        self.discover(NOTHING_FOUND)
        self.must("target", "bind", "--initiator-name", INITIATOR)
        self.assertIn(TARGET, self.discover())
        self.must("target", "unbind", "--initiator-address", rigs.addresses(self.wire, "guest")[0])
        self.login(LOGIN_REFUSED)

    def test_target_that_was_killed(self):
        """The initiator logs in again by itself, and writes what had not arrived."""
        self.start_target()
        files = self.log_in()
        files.make()
        files.mount()
        files.write("before")
        writing = self.rig.guest.start(f"cd {files.where} && head -c 4000000 /dev/zero >zeros && sync -f .", 120)
        self.target.kill()
        self.start_target()
        self.assertEqual(writing.finish(), 0, str(writing))
        files.write("after")
        files.unmount()
        files.mount()
        files.verify()
        files.unmount()
        files.check()
        self.logout()
        files.verify_on_host(self.image)


class Pool(Case):
    """The target's pool of buffers, in huge pages or not."""

    def pool_bytes(self):
        """The target's part of memory that is shared."""
        launcher = self.target.process.pid
        child = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()[0]
        maps = pathlib.Path(f"/proc/{child}/smaps").read_text()
        sizes = re.findall(r"(?ms)^[0-9a-f]+-[0-9a-f]+ rw-s .*?^Size: +(\d+) kB", maps)
        return max(map(int, sizes)) * 1024

    def test_the_least_is_128_mib(self):
        self.start_target(pool_mib=8)
        self.log_in()
        self.assertEqual(self.pool_bytes(), 128 << 20)
        self.logout()

    def test_more_than_there_are_huge_pages(self):
        """It takes ordinary memory then."""
        pages = int(pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").read_text())
        mib = 2 * pages + 128
        if mib > 2048:
            self.skipTest(f"this machine has {pages} huge pages; more than their memory would be too much")
        self.start_target(pool_mib=mib)
        self.log_in()
        self.assertIn("shmget rdma pool", self.target.output)
        self.assertEqual(self.pool_bytes(), mib << 20)
        self.logout()


class Walk(Case):
    """The commands of config/iser.md, one after the other."""

    # The guest has rxe, its modules and iscsid already.
    IN_GUEST = "rdma() { :; }; systemctl() { :; }; modprobe() { [ -e /sys/module/$1 ]; }; "

    def commands(self, heading):
        text = (harness.SOURCE / "config" / "iser.md").read_text()
        section = re.search(rf"(?s)\n## {heading}\n(.*?)(?=\n## |\Z)", text)[1]
        lines = [line for block in re.findall(r"(?s)```\n(.*?)```", section) for line in block.splitlines()]
        for here, ours in (("192.0.2.1", self.address), ("192.0.2.2", rigs.addresses(self.wire, "guest")[0]),
                           ("/srv/disk", self.image), ("tgtd -f", f"tgtd -f -C {CONTROL}"), ("tgtadm", f"tgtadm -C {CONTROL}"),
                           ("uroce-run", rigs.RUN)):
            lines = [line.replace(here, str(ours)) for line in lines]
        return lines

    def test_commands_of_the_page(self):
        target = self.commands("The target")
        self.target = self.start(target[0].removesuffix(" &").split(), env=self.rig.env)
        self.await_target()
        for line in target[1:]:
            self.finish(self.start(["sh", "-c", line]), 30)
        initiator = self.commands("The initiator")
        self.assertTrue(initiator[-1].endswith("--logout"), initiator)
        for line in initiator:
            if "session" in line:
                self.assertEqual(self.disk(), "/dev/sda")
            output = self.guest_run(self.IN_GUEST + line, 90)
            if "session" in line:
                self.assertEqual(output.strip(), "disk sda")


class Lossy(Case):
    """Through a relay that loses, repeats and reorders frames. After a retry, rxe repeats a registration of memory, which then
    fails (see README.md), so that the initiator's requests stop. Its pings or timers find that out, and it logs in anew."""

    wire = 2

    def run_case(self, **faults):
        self.start_target()
        files = self.log_in()
        # Where pings are still answered, only the SCSI layer's timers find a stopped request. That took 136 s.
        files.seconds = 240
        self.addCleanup(self.rig.set_faults)
        self.rig.set_faults(seed=SEED, **faults)
        files.make()
        files.mount()
        files.write("lossy")
        files.verify()
        files.unmount()
        done = self.rig.set_faults()
        self.assertGreater(sum(done.values()), 0, done)
        files.check()
        self.logout()
        files.verify_on_host(self.image)

    def test_faults_of_the_target(self):
        """Data, responses and acknowledgements."""
        self.run_case(of="far2", lose=0.005, repeat=0.02, delay=0.02)

    def test_faults_of_both(self):
        self.run_case(lose=0.0005, repeat=0.02, delay=0.0005)


if __name__ == "__main__":
    reason = storage.missing(("tgtd", "tgt"), ("iscsid", "open-iscsi"), ("mkfs.ext4", "e2fsprogs"))
    if reason:
        print(f"1..1\nok 1 iser # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
