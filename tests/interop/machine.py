"""A virtual machine with Debian as a newcomer has it: systemd, sudo, apt, and nothing of ours."""

import hashlib
import os
import shutil
import sys
import unittest

import bare_debian
import guest as guests
import harness
import rig as rigs

# A Debian server has these beyond the smallest set.
USUAL = ("systemd-sysv", "udev", "kmod", "sudo", "iproute2", "iputils-ping", "e2fsprogs")
AGENT = """#!/bin/sh
read -r limit command
timeout -s KILL "$limit" /bin/sh -c "$command" 2>&1
printf "\\nexit code %d\\n" $?
"""
SERVICE = """[Unit]
Description=Commands of the test
[Service]
ExecStart=/opt/test/busybox nc -ll -p 7000 -e /opt/test/agent
[Install]
WantedBy=multi-user.target
"""


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def prepare(name, packages, later):
    """The root of a machine, in a folder that this makes anew, with the network of this machine. `later`: names of packages
    that the machine's apt can install, and files of packages, whose dependencies it can; it has no network itself."""
    folder = harness.BUILD / "machines" / name
    shutil.rmtree(folder, ignore_errors=True)
    tar = archive(packages, later)
    root = folder / "root"
    root.mkdir(parents=True)
    bare_debian.run("tar", "-x", "-f", tar, "-C", root)
    add_modules(root)
    write(root / "etc/hostname", f"{name}\n")
    write(root / "etc/hosts", f"127.0.0.1 localhost {name}\n")
    # As after a first boot, which would set up every unit, and whose dpkg waits for a disk.
    write(root / "etc/machine-id", hashlib.sha256(name.encode()).hexdigest()[:32] + "\n")
    for folder in ("etc", "var"):
        (root / folder / ".updated").touch()
    write(root / "etc/dpkg/dpkg.cfg.d/test", "force-unsafe-io\n")
    write(root / "opt/test/agent", AGENT, 0o755)
    shutil.copy(shutil.which("busybox"), root / "opt/test/busybox")
    unit = root / "etc/systemd/system/test-agent.service"
    write(unit, SERVICE)
    wanted = unit.parent / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / unit.name).symlink_to(f"/etc/systemd/system/{unit.name}")
    return root


def archive(packages, later):
    """Of the root without what is ours and the kernel's: made once for each set of packages."""
    needs = [bare_debian.run("dpkg-deb", "-f", one, "Depends").strip() if str(one).endswith(".deb") else one for one in later]
    digest = hashlib.sha256(repr((packages, needs)).encode()).hexdigest()[:12]
    tar = harness.BUILD / f"machine-{digest}.tar"
    if not tar.exists():
        work = harness.BUILD / "machines" / digest
        shutil.rmtree(work, ignore_errors=True)
        debian = bare_debian.BareDebian(work)
        try:
            debian.apt("update")
        except AssertionError as e:
            raise unittest.SkipTest(f"this machine gets no packages from the archive: {e}") from None
        debian.apt("install", "--no-install-recommends", *packages)
        debian.run("apt-get", "clean")
        files = debian.add([one for one in later if str(one).endswith(".deb")])
        names = [one for one in later if not str(one).endswith(".deb")]
        debian.apt("install", "--download-only", *files, *names)
        for file in files:
            (debian.root / file.lstrip("/")).unlink()
        made = tar.with_suffix(".new.tar")
        bare_debian.run("tar", "-c", "-f", made, "-C", debian.root, ".")
        made.rename(tar)
        shutil.rmtree(work)
    return tar


def add_modules(root):
    """The guest's kernel has them where its modprobe looks."""
    release = (guests.KERNEL / "release").read_text().strip()
    folder = root / "lib/modules" / release
    folder.mkdir(parents=True)
    for module in guests.KERNEL.glob("*.ko"):
        shutil.copy(module, folder)
    bare_debian.run("chroot", root, "depmod", release)


class Machine(guests.Guest):
    """Runs from the constructor on. `wire`: the tap of its interface eth0, the address, and that of IPv6 or ""."""

    INIT = guests.HERE / "machine_init.sh"

    def __init__(self, directory, root, wire, number):
        self.ROOT = f"path={root}"
        super().__init__(directory, [wire], number=number, memory=1024, boot="net.ifnames=0 rw")


def run_tests(name, prepare_roots):
    """The main program of a test file about machines, whose roots are made while there is a network."""
    def skip(why):
        print(f"1..1\nok 1 {name} # SKIP {why}")
        sys.exit()
    if reason := rigs.missing() or bare_debian.may_install():
        skip(reason)
    if os.environ.get(rigs.INSIDE) != "1":
        try:
            prepare_roots()
        except unittest.SkipTest as why:
            skip(why)
    rigs.enter_namespace()
    harness.main()
