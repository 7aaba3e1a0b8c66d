#!/usr/bin/env python3
"""The machine's pool of 2 MiB hugepages: programs that take from it, that find it taken, and that give it back.

The suite runs alone. Each of its programs takes up to 128 pages, and its tests count what is left."""

import contextlib
import json
import mmap
import os
import pathlib
import shutil
import signal
import socket
import struct
import time
import unittest

import harness
import speaker
import test_capture
import test_memory
import test_privilege
import veth
from harness import BUILD, CPUS, IDLE, eal
from speaker import CREATE_CQ, CREATE_PD, Speaker
from test_nvmf import DISKS, HOST, NQN, NVMF
from test_privilege import AS_GAMES, OTHER, UROCE, UROCED

HUGE = 2 << 20
NEEDED = 256
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
EXAMPLE = BUILD / "tests" / "system" / "example" / "example"


class Pool:
    """Reserves pages, as a mapping does that nobody has touched yet."""

    def __init__(self):
        self.file = open(os.memfd_create("pool", os.MFD_HUGETLB), "r+b", 0)
        self.taken = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.taken.clear()
        self.file.close()

    def take(self):
        """Reserves one more; False when there are none."""
        with contextlib.suppress(OSError):
            self.file.truncate((len(self.taken) + 1) * HUGE)
            self.taken.append(mmap.mmap(self.file.fileno(), HUGE, offset=len(self.taken) * HUGE))
            return True
        return False

    def take_all(self):
        while self.take():
            pass


def in_use(program):
    """The KiB of hugepages of a process."""
    status = pathlib.Path(f"/proc/{program.process.pid}/status").read_text()
    return int(status.split("HugetlbPages:")[1].split()[0])


def wait_for_return(before):
    """Returns once as many pages are free as before. Kernels that fold the map of huge pages free them a moment later."""
    limit = time.monotonic() + 20 * harness.SLOW
    while harness.free_hugepages() < before:
        if time.monotonic() > limit:
            raise AssertionError(f"{harness.free_hugepages()} hugepages are free, {before} before")
        time.sleep(0.02)


needs_pages = unittest.skipUnless(harness.free_hugepages() >= NEEDED,
                                  f"fewer than {NEEDED} hugepages are free; config/hugepages.sh reserves them")
needs_namespaces = unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")


@needs_pages
class Programs(harness.Case):
    """That have their engines in their own process."""

    def setUp(self):
        super().setUp()
        self.before = harness.free_hugepages()

    def tearDown(self):
        wait_for_return(self.before)
        super().tearDown()

    def test_one_process(self):
        program = self.start([harness.PERF, "write_bw", *eal(huge=True), "--", "--back-to-back", "--verify", *IDLE, "-s", "65536", "-D", "2"])
        limit = time.monotonic() + 20 * harness.SLOW
        while in_use(program) < 96 * 2048 and time.monotonic() < limit:
            time.sleep(0.02)
        self.assertGreaterEqual(in_use(program), 96 * 2048)
        self.finish(program, 60)

    def test_nothing_said(self):
        """EAL takes as many as it needs."""
        report = self.run_perf("write_bw", ["-l", "0", "--no-pci"], "--back-to-back", "--verify", *IDLE, "-s", "65536", "-n", "300")
        self.assertIn("results", report)

    def test_a_mount_of_root_alone(self):
        """EAL ends where it may not lock a hugetlbfs. An ordinary user's program needs none, and has its pages all the same."""
        mount = self.directory / "closed"
        mount.mkdir()
        program = self.start(["unshare", "--mount", "sh", "-ec", 'mount -t hugetlbfs -o mode=0700 none "$1"; shift; exec "$@"', "sh",
                              mount, *AS_NOBODY, harness.PERF, "write_bw", *eal(huge=True), "--", "--back-to-back",
                              "--verify", *IDLE, "-s", "65536", "-D", "1"])
        limit = time.monotonic() + 20 * harness.SLOW
        while in_use(program) == 0 and time.monotonic() < limit:
            time.sleep(0.02)
        self.assertGreater(in_use(program), 0)
        self.finish(program, 60)

    def test_memif(self):
        for test, args in veth.TESTS:
            with self.subTest(test):
                roles = (eal(f"--vdev=net_memif0,role={role},socket={self.directory / 'm.sock'}", huge=True) for role in ("server", "client"))
                self.run_pair(test, *roles, *IDLE, "--verify", *args)

    def test_the_example_of_the_readme(self):
        self.assertIn("verified", self.finish(self.start([EXAMPLE, *eal(huge=True)]), 60))


@needs_pages
@needs_namespaces
class Ports(veth.Case):
    """On interfaces of the kernel, by each driver."""

    def test_each_driver(self):
        names = self.spaces(1500)
        kernel = ("--address", "kernel")
        for driver, role in (("net_uroce_kif0,iface=d0", ()), ("net_af_packet0,iface=d0", kernel), ("net_af_xdp0,iface=d0", kernel)):
            if "xdp" in driver and os.environ.get("UROCE_HAVE_XDP", "1") != "1":
                continue
            for test, args in veth.TESTS:
                with self.subTest(driver=driver, test=test):
                    self.pair(names, test, *args, server=role, client=role, server_eal=eal(f"--vdev={driver}", huge=True),
                              client_eal=eal(f"--vdev={driver}", huge=True))

    def test_nvmf(self):
        """Buffers that io_uring has registered."""
        names = self.spaces(4200)
        env = {"UROCE_SOCKET": str(self.directory / "uroced.sock")}
        disk = self.directory / "disk.img"
        disk.write_bytes(bytes(8 << 20))
        daemon = self.start([UROCED, "--interface", "d0", "--socket", env["UROCE_SOCKET"]], names[1])
        daemon.wait_for("serving", 30)
        target = self.start([NVMF, f"--lcores=(0,1)@{CPUS[-1]}", *eal(huge=True)[2:], "--", *IDLE, "--interface", "d0", "--namespace",
                             disk, "--nqn", DISKS, "--allow-host", NQN], names[0])
        target.wait_for("serving", 30)
        self.assertGreaterEqual(in_use(target), 96 * 2048)
        host = self.start([HOST, "uroce0", "192.0.2.1", DISKS, NQN, "4", "2"], names[1], env)
        self.assertIn("2 rounds on 4 queues verified", self.finish(host, 120))
        target.process.terminate()
        self.finish(target, 30)


@needs_pages
@unittest.skipUnless(test_privilege.ROOT, "only root has rights to give up")
class AfterItsRights(test_privilege.Daemon):
    """The daemon is another user by then."""

    def test_memory_of_clients(self):
        before = harness.free_hugepages()
        program = self.launch("--demo", *AS_GAMES, eal_args=eal(huge=True))
        self.traffic(user=OTHER)
        with speaker.user(OTHER), Speaker(self.socket) as one:
            # The first piece of queue memory, of ordinary pages, has no room for this queue.
            one.send(CREATE_CQ, speaker.cq(32768))
            data, fds, _, _ = socket.recv_fds(one.socket, 65536, 250)
            self.assertEqual(struct.unpack_from("<I", data, 4), (0,), data)
            self.assertEqual(os.fstat(fds[0]).st_blksize, HUGE)
            self.assertLessEqual(harness.free_hugepages(), before - 96 - 2)
            for fd in fds:
                os.close(fd)
        self.end(program)
        wait_for_return(before)


@needs_pages
class Taken(test_memory.QueueCase):
    """The pages are taken by others."""

    def test_pages_that_are_reserved_are_not_free(self):
        free = harness.free_hugepages()
        with Pool() as pool:
            pool.take_all()
            self.assertEqual(len(pool.taken), free)
            found = self.finish(self.start([UROCE, "doctor", "--json", "--socket", self.socket]), 30)
            text = next(one["text"] for one in json.loads(found) if one["topic"] == "hugepages")
            self.assertIn(" 0 free", text)
            daemon = self.start([UROCED, "--demo", "--socket", self.directory / "other.sock"])
            daemon.wait_for("serving uroce0, uroce1", 30)
            self.assertIn("running on 256 MiB of 4 KiB pages", daemon.output)
            report = self.run_perf("write_bw", ["-l", "0", "--no-pci"], "--back-to-back", "--verify", *IDLE, "-n", "300")
            self.assertIn("results", report)

    def test_pages_that_a_client_takes_from_its_queues(self):
        """The daemon died: the client kept the freed page, and the next access found none."""
        one, first, _, wakes = self.opened()
        # The first piece, of ordinary pages, has no room for this queue.
        size, (fd,) = self.piece(one, CREATE_CQ, speaker.cq(32768))
        self.assertEqual(os.fstat(fd).st_blksize, HUGE)
        with Pool() as pool:
            pool.take_all()
            self.assertEqual(test_memory.punch(fd, size), 0)
            pool.take_all()
            for wake in wakes[1:]:
                os.write(wake, b"1")
            # The first piece has room for one of them at most, and a new queue is cleared.
            for _ in range(3):
                one.call(CREATE_CQ, speaker.cq(16384))
            self.daemon.wait_for("is disconnected: it removed the pages of its queues", 20)
            self.close(one, first, fd, *wakes)
        with self.speaker() as other:
            other.handle(CREATE_PD)


@needs_pages
@unittest.skipUnless(test_capture.TSHARK and shutil.which("dpdk-dumpcap"), "tshark or dpdk-dumpcap (dpdk-dev) is not installed")
class Dumpcap(test_capture.Capturing):
    def test_beside_the_daemon(self):
        """It maps the daemon's pages."""
        prefix = f"uroce-dump-{os.getpid()}"
        self.addCleanup(shutil.rmtree, f"/var/run/dpdk/{prefix}", ignore_errors=True)
        self.addCleanup(harness.free_shared_hugepages, prefix)
        self.daemon(eal_args=["-l", "0", "--no-pci", f"--file-prefix={prefix}", "-m", "256"])
        file = self.directory / "dump.pcapng"
        dump = self.start(["dpdk-dumpcap", f"--file-prefix={prefix}", "-i", "0", "-s", "9216", "-w", file])
        dump.wait_for("File:", 30)
        folder = self.directory / "pair"
        folder.mkdir()
        pair = self.start([test_capture.PAIR, folder], env=self.env)
        harness.wait_for_rounds(pair, folder)
        dump.process.send_signal(signal.SIGINT)
        self.finish(dump, 30)
        (folder / "stop").touch()
        self.finish(pair, 60)
        self.assertGreater(self.check(file), 10)


if __name__ == "__main__":
    harness.main()
