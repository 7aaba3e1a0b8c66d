#!/usr/bin/env python3
"""Linux's multipath NVMe host with two paths to one disk of uroce_nvmf: I/O goes on while either path is dead.

test_paths.py [part of a case's name]...
UROCE_PATH_DEATHS=20 cuts that many paths, in turn.
"""

import json
import os
import pathlib
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import guest as guests  # noqa: E402
import harness  # noqa: E402
import nvme  # noqa: E402
import rig as rigs  # noqa: E402
import storage  # noqa: E402

DEATHS = int(os.environ.get("UROCE_PATH_DEATHS", "2"))
MIB = 8  # a pass of fio writes and reads them
MORE = "/run/more"
# The bytes follow from the pass and the offset, and each is compared: fio's crc32c takes the block of an earlier pass, where a write
# was lost, for a good one.
PASSES = f"n=0; while [ -e {MORE} ]; do n=$((n + 1)); {{}} || exit 1; done; echo $n passes"


class TwoPaths(nvme.UroceCase):
    """The target is on two of the rig's wires, `wires`."""

    def setUp(self):
        super().setUp()
        self.controllers = {}

    def target_address(self):
        return self.addresses()[0]

    def addresses(self):
        return [rigs.addresses(wire, "host")[0] for wire in self.wires]

    def connect_both(self):
        """The one disk. Requests go to both paths in turn."""
        for wire, self.address in zip(self.wires, self.addresses()):
            device = self.connect("--keep-alive-tmo=2")
            self.controllers[wire] = self.guest_run(f"grep -l 'traddr={self.address},' /sys/class/nvme/nvme*/address").split("/")[4]
        self.guest_run("echo round-robin | tee /sys/class/nvme-subsystem/nvme-subsys*/iopolicy")
        return device

    def until(self, condition):
        self.guest_run(f"n=0; until {condition}; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1; done", 90)

    def stat(self, wire, field):
        """The shell's word for a number that the kernel keeps of one path (Documentation/block/stat.rst)."""
        return f"$(awk '{{print ${field}}}' /sys/class/nvme/{self.controllers[wire]}/nvme*n1/stat)"

    def await_writes(self, wire):
        """This path carries more of them."""
        written = self.stat(wire, 5)
        before = int(self.guest_run(f"echo {written}"))
        self.until(f"[ {written} -gt {before + 20} ]")

    def await_state(self, wire, state):
        self.until(f"grep -qx {state} /sys/class/nvme/{self.controllers[wire]}/state")

    def cut(self, wire, other):
        """One path dies with requests on it. They go to the other one, and the path comes back."""
        for each in (wire, other):
            self.await_writes(each)
        self.addCleanup(harness.ip, "link", "set", f"wire{wire}", "up")
        harness.ip("link", "set", f"wire{wire}", "down")
        self.until(f"[ {self.stat(wire, 9)} -gt 0 ]")
        self.await_state(wire, "connecting")
        self.await_writes(other)
        self.assertEqual(self.guest_run(f"cat /sys/class/nvme/{self.controllers[wire]}/state").strip(), "connecting")
        harness.ip("link", "set", f"wire{wire}", "up")
        self.await_state(wire, "live")


class Deaths:
    """I/O goes on, and no byte is wrong."""

    def test_paths_die_in_turn(self):
        self.start_target()
        device = self.connect_both()
        self.assertEqual(self.guest_run("ls -d /dev/nvme*n*").split(), [device])
        ids = self.guest_run("cat /sys/class/nvme/nvme*/cntlid").split()
        self.assertEqual(len(set(ids)), 2, ids)
        fio = nvme.FIO.format(device, f"{MIB}m", "--verify_backlog=32").replace("--randseed=7", "--randseed=$n")
        fio = fio.replace("--verify=crc32c", "--verify=pattern --verify_pattern=0x$((4096 + n))%o")
        io = self.rig.guest.start(f"cd /run && touch {MORE} && {PASSES.format(fio)}", 60 + 60 * DEATHS)
        for number in range(DEATHS):
            wire, other = self.wires if number % 2 == 0 else reversed(self.wires)
            self.cut(wire, other)
        self.guest_run(f"rm {MORE}")
        self.assertEqual(io.finish(), 0, f"{io}\n{self.target}")
        self.assertRegex(io.output, r"err= 0[\s\S]*\d+ passes")
        self.compare_bytes(device, MIB)
        self.disconnect()
        self.assertIsNone(self.target.process.poll(), str(self.target))


class Daemon(Deaths, TwoPaths):
    """The daemon's devices, of which one has a port of net_af_packet and one of net_uroce_kif."""

    wires = (1, 3)
    listen = "::"

    def test_disk_that_grows(self):
        """The host hears of it on both paths, and reads what was changed."""
        self.start_target()
        device = self.connect_both()
        self.assertEqual(self.size(device), nvme.DISK_MIB << 20)
        os.truncate(self.image, 2 * nvme.DISK_MIB << 20)
        self.target.process.send_signal(signal.SIGHUP)
        self.until(f"[ $(blockdev --getsize64 {device}) = {2 * nvme.DISK_MIB << 20} ]")
        self.fio(device, "1m", f"--offset={nvme.DISK_MIB}m")
        for controller in self.controllers.values():
            # The kernel has read it already.
            self.assertNotIn("nsid", self.guest_run(f"nvme changed-ns-list-log /dev/{controller}").lower())
        self.disconnect()


class OwnStack(Deaths, TwoPaths):
    """One program, whose file names two interfaces of the kernel and two addresses, as config/appliance.md does."""

    wires = (3, 4)

    def addresses(self):
        """They lie beside the daemon's."""
        return [address + "1" for address in super().addresses()]

    def start_target(self):
        settings = self.directory / "nvmf.toml"
        settings.write_text(f'''
interface = {json.dumps([f"wire{wire}" for wire in self.wires])}
listen = {json.dumps(self.addresses())}
lcores = "{harness.CPUS[-1]}"
[[subsystem]]
nqn = "{nvme.SUBSYSTEM}"
namespaces = ["{self.image}"]
''')
        own = [option for address in self.addresses() for option in ("--address", f"{address}/24")]
        self.run_target("--config", settings, *own, "--port-mtu", guests.MTU)

    def test_hosts_hear_of_both(self):
        self.start_target()
        found = self.discover()
        for address in self.addresses():
            self.assertIn(f"traddr:  {address}\n", found)
        self.guest_run(f"nvme connect-all -t rdma -a {self.address} -s {nvme.PORT} -q {nvme.HOST} -I {nvme.HOST_ID} "
                       "--keep-alive-tmo=5 --ctrl-loss-tmo=-1")
        self.disk(1)
        self.until("[ $(grep -lx live /sys/class/nvme/nvme*/state | wc -l) = 2 ]")
        self.disconnect()


if __name__ == "__main__":
    reason = storage.missing(("nvme", "nvme-cli"), ("fio", "fio"))
    if reason:
        print(f"1..1\nok 1 paths # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
