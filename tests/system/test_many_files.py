#!/usr/bin/env python3
"""Memory in many files, registered in one call by an unmodified program of libibverbs, as SPDK does with its huge pages."""

import os
import pathlib
import shutil
import tempfile
import unittest

import harness
import test_clients
from harness import BUILD
from verbs import RUN

CLIENT = BUILD / "tests" / "system" / "clients" / "client_many_files"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MOST_PAGES, FEWEST_PAGES, LEFT_PAGES = 300, 64, 16
# Fewer descriptors than the library opens at a time.
FEW = ("prlimit", "--nofile=48")
MOUNT = ("unshare", "--mount", "sh", "-ec",
         'mount -t hugetlbfs -o pagesize=2M,mode=1777 none "$1"; mkdir -m 1777 "$1/files"; shift; exec "$@"', "sh")


class Case(test_clients.Case):
    """The steps of the program are seen in the daemon: its mappings and its descriptors."""

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)

    def step(self, number):
        (self.folder / str(number)).touch()

    def program(self, before, folder, count, kib, *more):
        program = self.start([*before, RUN, CLIENT, folder, self.folder, count, kib, *more], env={**self.env, "UROCE_VERBOSE": "1"})
        program.wait_for("ready", 120)
        return program

    def registers(self, before, folder, count, kib, *more):
        """Runs the program, whose registration succeeds, to its end. The program's output."""
        program = self.program(before, folder, count, kib, *more)
        ready = self.resources()
        self.step(1)
        program.wait_for("registered", 300)
        now = self.resources()
        self.assertIn(now["fds"] - ready["fds"], (0, count), "all files are kept for a successor, or none where they are too many")
        self.assertGreaterEqual(now["maps"], ready["maps"] + count)
        self.step(2)
        program.wait_for("deregistered", 300)
        self.assert_returns_to(ready, maps=8)
        self.step(3)
        said = self.finish(program, 60)
        print("\n".join(f"# {line}" for line in said.strip().splitlines()))
        return said


class HugePages(Case):
    def setUp(self):
        super().setUp()
        self.count = min(MOST_PAGES, harness.free_hugepages() - LEFT_PAGES)
        if self.count < FEWEST_PAGES:
            self.skipTest(f"{harness.free_hugepages()} hugepages are free, {FEWEST_PAGES + LEFT_PAGES} are needed; "
                          "config/hugepages.sh reserves them")
        if os.geteuid() != 0 or not harness.may_make_namespaces():
            self.skipTest("only root mounts a hugetlbfs, in a namespace of its own")

    def test_in_one_call(self):
        where = self.directory / "huge"
        where.mkdir()
        self.registers((*MOUNT, where, *NOBODY, *FEW), where / "files", self.count, 2048)

    def test_below_dev(self):
        """DPDK's usual place. Device memory is looked for there, which took as long as the square of the files."""
        where = next((one for one in map(pathlib.Path, ("/dev/hugepages", "/dev/mqueue", "/dev/pts")) if one.is_dir()), None)
        if where is None:
            self.skipTest("no folder below /dev can be mounted over")
        self.registers((*MOUNT, where), where / "files", self.count, 2048)


class SmallFiles(Case):
    FILES = 10000
    """Within an ordinary user's quarter of three quarters of vm.max_map_count."""

    def setUp(self):
        super().setUp()
        self.most = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="uroce-files-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.files, ignore_errors=True)
        self.files.chmod(0o777)

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
    def test_of_an_ordinary_user(self):
        """One that cannot be opened half way: nothing is left of the part that was."""
        said = self.registers((*NOBODY, *FEW), self.files, min(self.FILES, self.most // 6), 4, "lock")
        self.assertIn("a locked file: Operation not supported", said)

    @unittest.skipUnless(os.geteuid() == 0, "root has all mappings that the daemon gives")
    def test_as_many_as_the_daemon_maps(self):
        count = self.most - self.most // 4 - 1000
        if count > 200000:
            self.skipTest(f"vm.max_map_count is {self.most}")
        self.registers((), self.files, count, 4)

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
    def test_more_than_a_user_may_have(self):
        """The refusal comes before the first file, and names the limit."""
        count = self.most // 5
        if count > 50000:
            self.skipTest(f"vm.max_map_count is {self.most}")
        program = self.program(NOBODY, self.files, count, 4)
        ready = self.resources()
        self.step(1)
        program.wait_for("refused: Cannot allocate memory", 120)
        self.assertIn("max_mappings; vm.max_map_count", program.output)
        self.assert_returns_to(ready, maps=8)
        self.step(3)
        self.finish(program, 60)


if __name__ == "__main__":
    harness.main()
