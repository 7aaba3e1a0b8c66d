#!/usr/bin/env python3
"""Linux's own NVMe initiator over RDMA, in a guest, on disks of uroce_nvmf, and of Linux's own target to compare.

test_nvmf.py [part of a case's name]...
"""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import harness  # noqa: E402
import nvme  # noqa: E402
import rig as rigs  # noqa: E402
import storage  # noqa: E402


class Linux(nvme.AnyTarget, nvme.Case):
    """Linux's own target (nvmet), in the same guest, by way of rxe to itself. What fails here is the cases' fault."""

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
            f"mkdir {port} && cd {port} && echo rdma >addr_trtype && echo ipv4 >addr_adrfam && echo {self.address} >addr_traddr && "
            f"echo {nvme.PORT} >addr_trsvcid && ln -s {subsystem} subsystems/")

    def stop_target(self, subsystem, port):
        self.leave()
        self.rig.guest.start(f"rm {port}/subsystems/*; rmdir {port} {subsystem}/namespaces/1 {subsystem}; rm /run/nvmet", 60).finish()

    def compare(self, files):
        """The backing file, in the guest."""
        self.guest_run("e2fsck -fn /run/nvmet")


if __name__ == "__main__":
    reason = storage.missing(("nvme", "nvme-cli"), ("fio", "fio"), ("mkfs.ext4", "e2fsprogs"))
    if reason:
        print(f"1..1\nok 1 nvmf # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
