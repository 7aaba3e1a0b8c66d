"""Linux's own NVMe initiator over RDMA, in the guest: what is done to every target."""

import hashlib
import os
import re

import harness
import rig as rigs
import storage

UROCE_NVMF = harness.BUILD / "apps" / "nvmf" / "uroce_nvmf"

SUBSYSTEM = "nqn.2026-01.example:disks"
HOST = "nqn.2014-08.org.nvmexpress:uuid:4a6f3c1e-0f3b-4a1c-9d55-2a5d8c3b7e01"
HOST_ID = HOST.rsplit(":", 1)[1]
OTHER_HOST = HOST.replace("4a6f", "5b70")
PORT = 4420
DISK_MIB = 64
# A target that is gone is looked for again each second, for a minute and a half.
RECONNECT = "--reconnect-delay=1 --ctrl-loss-tmo=90 --keep-alive-tmo=5"
FIO = ("fio --name=verified --filename={0} --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --iodepth=8 --size={1} "
       "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=7 {2}")


class Case(storage.Case):
    """A target at `address` offers SUBSYSTEM on `PORT`. Each target's own class starts it (`start_target`)."""

    wire = 1

    def setUp(self):
        super().setUp()
        self.address = self.target_address()
        self.addCleanup(self.leave)

    def target_address(self):
        return rigs.addresses(self.wire, "host")[0]

    def leave(self):
        """Ends the connections that a case has left."""
        self.rig.guest.start(f"nvme disconnect -n {SUBSYSTEM}", 60).finish()

    def discover(self, host=HOST, code=0):
        return self.guest_run(f"nvme discover -t rdma -a {self.address} -s {PORT} -q {host}", code=code)

    def connect(self, options="", host=HOST, code=0):
        """The block device of the first namespace."""
        self.guest_run(f"nvme connect -t rdma -a {self.address} -s {PORT} -n {SUBSYSTEM} -q {host} -I {HOST_ID} "
                       f"{RECONNECT} {options}", 90, code)
        return self.disk(1) if code == 0 else None

    def disk(self, number):
        """The guest's name of a namespace, once it is there."""
        found = self.guest_run(
            f"n=0; until for s in /sys/class/nvme-subsystem/*; do grep -qs '^{SUBSYSTEM}$' $s/subsysnqn && "
            f"ls -d $s/nvme*n{number} 2>/dev/null; done | grep .; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; done", 60)
        return "/dev/" + re.search(r"nvme\d+n\d+", found)[0]

    def size(self, device):
        return int(self.guest_run(f"blockdev --getsize64 {device}"))

    def disconnect(self):
        self.assertRegex(self.guest_run(f"nvme disconnect -n {SUBSYSTEM}", 60), r"disconnected [1-9]")

    def fio(self, device, size="4m", options=""):
        """Random blocks, written and read back."""
        output = self.guest_run("cd /run && " + FIO.format(device, size, options), 180)
        self.assertRegex(output, r"err= 0")

    def make_file_system(self, **options):
        files = storage.FileSystem(self, self.connect(**options))
        files.make()
        files.mount()
        return files


class UroceCase(Case):
    """uroce_nvmf on a file of this side."""

    listen = None  # where not at `address` alone

    def setUp(self):
        super().setUp()
        self.image = self.directory / "disk"
        self.image.touch()
        os.truncate(self.image, DISK_MIB << 20)
        self.target = None

    def start_target(self, *options, eal=()):
        self.run_target(*eal, "--nqn", SUBSYSTEM, "--namespace", self.image, "--listen", self.listen or self.address, *options)

    def run_target(self, *words):
        self.target = self.start([UROCE_NVMF, *words], env=self.rig.env)
        self.target.wait_for("serving", 20)

    def compare(self, files):
        self.assertIsNone(self.target.process.poll(), str(self.target))
        files.verify_on_host(self.image)

    def compare_bytes(self, device, mib):
        """The disk's beginning, as both sides see it."""
        read = self.guest_run(f"dd if={device} bs=1M count={mib} iflag=direct 2>/dev/null | sha256sum", 120)
        with self.image.open("rb") as image:
            self.assertEqual(read.split()[0], hashlib.sha256(image.read(mib << 20)).hexdigest())

    def start_fio(self, device, mib):
        return self.rig.guest.start("cd /run && " + FIO.format(device, f"{mib}m", ""), 240)

    def await_io(self):
        """Until more blocks were written than before. The path to the disk counts them, not the disk."""
        self.guest_run("written() { set -- $(cat /sys/block/nvme*c*n1/stat); echo $5; }; before=$(written); n=0; until "
                       "[ $(written) -gt $((before + 20)) ]; do n=$((n + 1)); [ $n -lt 300 ] || exit 1; sleep 0.1; done", 90)


class AnyTarget:
    """Cases for every target."""

    def test_discovery(self):
        self.start_target()
        found = self.discover()
        self.assertIn(f"subnqn:  {SUBSYSTEM}", found)
        self.assertRegex(found, rf"trtype:  rdma[\s\S]*trsvcid: {PORT}[\s\S]*traddr:  {re.escape(self.address)}")
        self.guest_run(f"nvme connect-all -t rdma -a {self.address} -s {PORT} -q {HOST} -I {HOST_ID}")
        self.assertEqual(self.size(self.disk(1)), DISK_MIB << 20)
        self.disconnect()

    def test_file_system(self):
        self.start_target()
        files = self.make_file_system()
        files.write("first")
        files.unmount()
        files.check()
        self.disconnect()
        # Three I/O queues: Linux makes no two of one kind for one processor.
        files.device = self.connect("--nr-write-queues=1 --nr-poll-queues=1")
        self.assertEqual(self.guest_run("cat /sys/class/nvme/nvme*/queue_count").strip(), "4")
        files.mount()
        files.verify()
        files.write("second")
        files.unmount()
        files.check()
        self.disconnect()
        self.compare(files)

    def test_fio_verifies(self):
        self.start_target()
        device = self.connect()
        self.fio(device)
        self.fio(device, "8m", "--bs=128k --iodepth=4")
        self.disconnect()

    def test_identify(self):
        self.start_target()
        device = self.connect()
        controller = self.guest_run(f"nvme id-ctrl {device}")
        self.assertIn(SUBSYSTEM, controller)
        self.assertRegex(self.guest_run(f"nvme id-ns {device}"), r"nsze +: 0x[1-9a-f]")
        self.assertEqual(self.size(device), DISK_MIB << 20)
        self.guest_run(f"nvme flush {device}")
        self.disconnect()

    def test_discard(self):
        self.start_target()
        device = self.connect()
        self.guest_run(f"tr '\\0' '\\377' </dev/zero | dd of={device} bs=64k count=32 iflag=fullblock oflag=direct")
        self.guest_run(f"blkdiscard -o 65536 -l 1048576 {device}")
        left = "dd if={} bs=64k skip={} count={} iflag=direct 2>/dev/null | tr -d '\\0' | wc -c"
        self.assertEqual(self.guest_run(left.format(device, 1, 16)).strip(), "0")
        self.assertEqual(self.guest_run(left.format(device, 17, 15)).strip(), str(15 << 16))
        self.disconnect()

    def test_write_zeroes(self):
        """By a command without data, on a range that ends in the midst of what was written at once."""
        self.start_target()
        device = self.connect()
        name = device.removeprefix("/dev/")
        self.assertGreater(int(self.guest_run(f"cat /sys/block/{name}/queue/write_zeroes_max_bytes")), 0)
        self.guest_run(f"tr '\\0' '\\377' </dev/zero | dd of={device} bs=64k count=32 iflag=fullblock oflag=direct")
        self.guest_run(f"blkdiscard -z -o 69632 -l 1052672 {device}")
        read = "dd if={} bs=4096 skip={} count={} iflag=direct 2>/dev/null | tr -d '\\{}' | wc -c"
        for first, count, byte in ((0, 17, "377"), (17, 257, "000"), (274, 238, "377")):
            self.assertEqual(self.guest_run(read.format(device, first, count, byte)).strip(), "0", f"blocks from {first}")
        self.compare_bytes(device, 2)
        self.disconnect()
