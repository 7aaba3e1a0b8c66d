"""Remote disks that Linux in the guest mounts: what the suites of iSER and NVMe over RDMA share."""

import hashlib
import re
import shutil
import subprocess

import interop
import rig as rigs

FILES = 6
FILE_BYTES = 500_000


def missing(*programs):
    """Why this machine cannot run the suite, or nothing. `programs`: those of the suite, as (name, package)."""
    absent = [package for name, package in programs if shutil.which(name) is None]
    return rigs.missing() or (f"not installed: {', '.join(absent)}; config/packages.txt names them" if absent else None)


class Case(interop.RigCase):
    module_lists = ("modules", "storage_modules")

    def guest_run(self, command, seconds=60, code=0):
        """Output of a command in the guest, which must end with that code."""
        remote = self.rig.guest.start(command, seconds)
        if remote.finish() != code:
            kernel = self.rig.guest.start("dmesg | tail -n 40", 20)
            kernel.finish()
            self.fail(f"exit code {code} expected: {remote}\n{self.rig.guest.said()[-2000:]}\n{kernel.output}")
        return remote.output


class FileSystem:
    """An ext4 on a disk of the guest, with files of random bytes whose checksums are kept."""

    def __init__(self, case, device, where="/run/mnt", seconds=120):
        """`seconds`: how long an operation on the disk may take."""
        self.case, self.device, self.where, self.seconds = case, device, where, seconds
        self.sums = {}
        case.guest_run(f"mkdir -p {where}")

    def make(self):
        self.case.guest_run(f"mkfs.ext4 -q -F {self.device}")

    def mount(self):
        self.case.guest_run(f"mount {self.device} {self.where}")
        # A case that fails must not leave it to the next one.
        self.case.addCleanup(self.case.rig.guest.start, f"umount -l {self.where} 2>/dev/null", 20)

    def unmount(self):
        self.case.guest_run(f"umount {self.where}", self.seconds)

    def write(self, prefix, files=FILES, size=FILE_BYTES):
        """Files on the disk, not in the cache alone."""
        names = [f"{prefix}{number}" for number in range(files)]
        output = self.case.guest_run(
            f"cd {self.where} && for f in {' '.join(names)}; do head -c {size} /dev/urandom >$f || exit 1; done; "
            f"sync -f . && sha256sum {' '.join(names)}", self.seconds)
        self.sums |= {name: digest for digest, name in re.findall(r"(?m)^([0-9a-f]{64}) +(\S+)$", output)}
        self.case.assertTrue(set(names) <= set(self.sums), output)

    def verify(self):
        """Every file, read from the disk rather than from the cache."""
        lines = "\\n".join(f"{digest}  {name}" for name, digest in self.sums.items())
        self.case.guest_run(
            f"echo 3 >/proc/sys/vm/drop_caches; cd {self.where} && printf '{lines}\\n' | sha256sum -c --quiet", self.seconds)

    def check(self):
        """fsck, from the guest, of what is not mounted."""
        self.case.guest_run(f"e2fsck -fn {self.device}", self.seconds)

    def verify_on_host(self, image):
        """The same files and a sound file system in the target's backing file."""
        subprocess.run(["e2fsck", "-fn", image], check=True, capture_output=True, timeout=60)
        for name, digest in self.sums.items():
            copy = self.case.directory / "copy"
            subprocess.run(["debugfs", "-R", f"dump /{name} {copy}", image], check=True, capture_output=True, timeout=60)
            self.case.assertEqual(hashlib.sha256(copy.read_bytes()).hexdigest(), digest, f"{name} differs in {image}")
