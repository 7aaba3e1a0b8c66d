#!/usr/bin/env python3
"""config/appliance.md, as a newcomer follows it: its commands, on two machines with a bare Debian and systemd.

test_appliance.py [part of a case's name]...
"""

import pathlib
import re
import shlex
import shutil
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import bare_debian  # noqa: E402
import guest as guests  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402

PAGE = harness.SOURCE / "config" / "appliance.md"
MACHINES = harness.BUILD / "machines"
PACKAGES = MACHINES / "packages"
NAMES = ("target", "host")
DISK, DISK_MIB = "/opt/test/disk", 512
TEXT = "written by the host"
# The newcomer's editor: each line of the page goes where the file has it behind a `#`, or another value of the same key.
EDITOR = r"""#!/bin/sh
while IFS= read -r line; do
  awk -v line="$line" -v key="${line%% = *}" '{ bare = $0; sub(/^#/, "", bare)
    if (bare == line || index(bare, key " = ") == 1) { print line; found = 1 } else print } END { exit !found }' "$1" >/tmp/edited ||
    { echo "the file has no line for: $line"; exit 1; }
  cat /tmp/edited >"$1"
done </tmp/lines
"""


def blocks():
    """Of the page: (number of the section, language, lines)."""
    section, found, inside = 0, [], None
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"## (\d+)\.", line):
            section = int(match[1])
        elif line.startswith("## "):
            section = 0
        elif line.startswith("```"):
            if inside is None:
                inside = (section, line.removeprefix("```"), [])
                found.append(inside)
            else:
                inside = None
        elif inside:
            inside[2].append(line)
    return found


def prepare():
    """Both roots, while there is a network."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    deb = next(deb for deb in bare_debian.packages(PACKAGES) if deb.name.startswith("uroce-nvmf_"))
    for name in NAMES:
        root = machine.prepare(name, machine.USUAL, (deb, "nvme-cli", "rdma-core"))
        machine.write(root / "opt/test/edit", EDITOR, 0o755)
    folder = MACHINES / "target" / "root" / "root" / "build-package"
    folder.mkdir()
    shutil.copy(deb, folder)


CONNECT = next(line for _, _, lines in blocks() for line in lines if "nvme connect" in line)


class Page(harness.Case):
    def setUp(self):
        super().setUp()
        harness.ip("link", "set", "lo", "up")
        harness.ip("link", "add", "wire", "type", "bridge", "mcast_snooping", "0")
        harness.sysctl(None, "net.ipv6.conf.wire.disable_ipv6=1")
        harness.ip("link", "set", "wire", "mtu", guests.MTU, "up")
        self.machines = []
        for number, name in enumerate(NAMES, 1):
            guests.make_tap(f"wire{number}", guests.MTU)
            harness.ip("link", "set", f"wire{number}", "master", "wire")
            one = machine.Machine(self.directory, MACHINES / name / "root", (f"wire{number}", f"192.0.2.{number}/24", ""), number)
            self.addCleanup(shutil.rmtree, MACHINES / name)
            self.addCleanup(one.kill)
            self.machines.append(one)
        self.target, self.host = self.machines
        for one in self.machines:
            one.wait_until_up(240)

    def run_on(self, one, command, seconds=300, code=0):
        remote = one.start(f"cd /root; export EDITOR=/opt/test/edit; {command}", seconds)
        if " apt" in command:
            remote.send_line("y")  # "Do you want to continue?"
        self.assertEqual(remote.finish(), code, f"{remote}\n{one.said()[-1500:]}")
        return remote.output

    def make_disk(self):
        """/dev/sdb of the page: a block device of the target."""
        self.run_on(self.target, f"truncate -s {DISK_MIB}M {DISK} && modprobe loop && d=$(losetup -f --show {DISK}) "
                                 "&& udevadm settle && ln -s $d /dev/sdb")

    def edit(self, lines):
        quoted = " ".join(map(shlex.quote, lines))
        self.run_on(self.target, f"printf '%s\\n' {quoted} >/tmp/lines; sudoedit /etc/uroce/nvmf.toml")

    def await_serving(self, times):
        """The service's journal says it that often."""
        self.run_on(self.target, f"n=0; until [ $(journalctl -u uroce-nvmf | grep -c serving) -ge {times} ]; do n=$((n + 1)); "
                                 "[ $n -lt 120 ] || { journalctl -u uroce-nvmf; exit 1; }; sleep 0.5; done")

    def walk(self, section):
        """The commands of a section, in order; yields each after it has run."""
        one = self.host if section == 2 else self.target
        found = [block for block in blocks() if block[0] == section]
        for number, (_, language, lines) in enumerate(found):
            for line in lines if not language else ():
                if line.startswith("sudoedit"):
                    self.edit(next(lines for _, language, lines in found[number:] if language == "toml"))
                    yield line, ""
                elif line.startswith("sudo uroce_nvmf"):
                    yield line, one.start(f"exec {line}", 300)
                else:
                    yield line, self.run_on(one, line)

    def test_walk(self):
        self.make_disk()
        starts = 0
        for line, output in self.walk(1):
            if re.search("systemctl (enable|restart)", line):
                starts += 1
                self.await_serving(starts)
        self.assertEqual(starts, 2)
        self.check_service()
        steps = set()
        for line, output in self.walk(2):
            steps.add(" ".join(line.split()[1:3]))
            if "nvme discover" in line:
                self.assertIn("subnqn:  nqn.2024-01.org.example:disks", output)
            elif "nvme connect" in line:
                self.run_on(self.host, "n=0; until [ -b /dev/nvme0n1 -a -b /dev/nvme0n2 ]; do n=$((n + 1)); [ $n -lt 120 ] || exit 1; "
                                       "sleep 0.5; done; udevadm settle")
            elif "nvme list" in line:
                self.assertRegex(output, r"/dev/nvme0n2 .* uroce_nvmf ")
            elif " mount " in line:
                self.run_on(self.host, f"echo '{TEXT}' >/mnt/file; sync -f /mnt")
        self.assertLessEqual({"nvme connect", "mkfs.ext4 /dev/nvme0n1", "umount /mnt", "nvme disconnect"}, steps)
        self.run_on(self.target, "sync")
        self.assertIn(TEXT, bare_debian.run("debugfs", "-R", "cat /file", MACHINES / "target" / "root" / DISK[1:]))
        self.check_hosts()
        self.check_without_service()

    def check_service(self):
        said = self.run_on(self.target, "p=$(systemctl show -P MainPID uroce-nvmf); stat -c 'user %U' /proc/$p; cat /proc/$p/status")
        self.assertIn("user uroce-nvmf\n", said)
        self.assertRegex(said, r"NoNewPrivs:\s1[\s\S]*Seccomp:\s2")
        self.assertRegex(said, r"CapEff:\s0+\n")

    def check_hosts(self):
        """Section 3: a host that is not on the list, and one that is."""
        mine = self.run_on(self.host, "cat /etc/nvme/hostnqn").strip()
        line = next(lines for section, language, lines in blocks() if (section, language) == (3, "toml"))[0]
        for starts, (host, code) in enumerate(((re.search('"(.*)"', line)[1], 1), (mine, 0)), 3):
            self.edit([f'hosts = ["{host}"]'])
            self.run_on(self.target, "systemctl restart uroce-nvmf")
            self.await_serving(starts)
            output = self.run_on(self.host, CONNECT, code=code)
            if code:
                self.assertIn("could not add new controller: failed to write to nvme-fabrics device", output)
                self.assertRegex(self.run_on(self.host, "dmesg"), "Connect for subsystem .* is not allowed, hostnqn: ")
        self.run_on(self.host, "nvme disconnect-all")

    def check_without_service(self):
        for line, running in self.walk(4):
            if line.startswith("sudo uroce_nvmf"):
                running.wait_for("serving", 60)
                self.run_on(self.target, "kill $(pidof uroce_nvmf)")
                self.assertEqual(running.finish(), 0, str(running))
                return
        self.fail("the page does not start the target by hand")


if __name__ == "__main__":
    machine.run_tests("appliance", prepare)
