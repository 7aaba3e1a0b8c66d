#!/usr/bin/env python3
"""A daemon whose control groups limit its memory, its huge pages or its threads refuses ordinary users, and lives."""

import contextlib
import errno
import os
import pathlib
import resource
import struct
import time

import harness
import speaker
import test_users
from harness import SLOW
from speaker import (CM_BIND, CM_CREATE_CHANNEL, CM_CREATE_ID, CREATE_CHANNEL, CREATE_CQ, CREATE_PD, CREATE_QP, CREATE_SRQ, OPEN,
                     Speaker, memory, text, user)

MIB = 1 << 20
LIMIT = 300 * MIB
NOBODY = 65534
CREATE_NULL, CREATE_WINDOW, OPEN_XRC, CREATE_XRC_TARGET, CM_LISTEN = 29, 22, 40, 42, 73
TCP, RC, UD = 0x0106, 2, 4
LARGE = speaker.cq(100_000)


def mounts():
    """The folders of control groups that can be written to: (kind, options, folder)."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and os.access(folder, os.W_OK):
            yield kind, options.split(","), pathlib.Path(folder)


def first_version(controller):
    """The controller's folder, or None."""
    return next((folder for kind, options, folder in mounts() if kind == "cgroup" and controller in options), None)


def second_version(controller):
    """The folder, where groups may have the controller, or None."""
    for kind, _, folder in mounts():
        if kind == "cgroup2" and controller in (folder / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
                return folder
    return None


class Case(test_users.Case):
    """The daemon of a case starts in the groups that limits() makes."""

    def setUp(self):
        self.groups = []
        self.limits()
        super().setUp()

    def limits(self):
        """Makes the groups."""

    def start_daemon(self):
        enter = "".join(f"echo 0 > {group}/cgroup.procs && " for group in self.groups)
        self.PREFIX = ("sh", "-c", enter + 'exec "$@"', "sh")
        return super().start_daemon()

    def group(self, parent, **limits):
        """A new group, with the values of its files; "__" is a dot in their names."""
        group = parent / f"uroce-test-{os.getpid()}-{len(self.groups)}"
        group.mkdir()
        self.addCleanup(self.remove, group)
        self.groups.append(group)
        for name, value in limits.items():
            (group / name.replace("__", ".")).write_text(str(value))
        return group

    @staticmethod
    def remove(group):
        """A group is busy until the last process of it is gone."""
        limit = time.monotonic() + 20 * SLOW
        while True:
            try:
                return group.rmdir()
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.02)

    def without_huge_pages(self):
        """All queues are of ordinary pages, where a group can say so. A process is in one group of version 2."""
        if folder := second_version("hugetlb"):
            group = next((group for group in self.groups if group.parent == folder), None) or self.group(folder)
            (group / "hugetlb.2MB.rsvd.max").write_text("0")

    def wait_until(self, done, what):
        limit = time.monotonic() + 20 * SLOW
        while not done():
            self.assertLess(time.monotonic(), limit, f"{what}: {self.daemon}")
            time.sleep(0.05)

    def check_service(self):
        """The daemon serves others: a ping over the wire, and root."""
        self.assertIsNone(self.daemon.process.poll(), f"the daemon ended: {self.daemon}")
        said = self.uroce("ping", "10.117.0.2", "--count", "3")
        self.assertRegex(said, r"UD, connection manager: 3 of 3 answered")
        self.assertNotIn("nobody answers", said)
        with self.speaker() as root:
            self.assertEqual(root.call(CREATE_CQ, speaker.cq(1000))[0], 0)


class Limited:
    """The memory of a group is limited. USE and MAX: the names of its files."""
    USE = MAX = ""

    @staticmethod
    def parent():
        """The folder in which groups have limits of memory, or None."""
        return None

    def limits(self):
        parent = self.parent()
        if parent is None:
            self.skipTest("this machine gives the tests no group of this version with limits of memory")
        self.limited = self.group(parent, **{self.MAX: LIMIT})
        self.without_huge_pages()

    def used(self):
        """Bytes, without those of the daemon's own files, which the kernel drops when it needs them."""
        of = dict(line.split() for line in (self.limited / "memory.stat").read_text().splitlines())
        files = sum(int(of.get(f"total_{name}", of[name])) for name in ("active_file", "inactive_file"))
        return int((self.limited / self.USE).read_text()) - files

    def wait_for_return(self, base):
        """Returns once the users' objects have ended, and their memory is given back."""
        self.wait_until(lambda: not set(self.budgets()) - {0}, "objects are not given back")
        # The C library keeps some of what many threads freed: up to 36 MiB were seen, which do not grow.
        self.wait_until(lambda: self.used() < base + 48 * MIB, f"of {self.used()} bytes, {base} were in use before")

    def kinds(self, one):
        """A call for each kind of object that makes one more."""
        pd, small, channel = one.handle(CREATE_PD), one.handle(CREATE_CQ, speaker.cq(16)), one.handle(CM_CREATE_CHANNEL)
        fd = memory(4096)
        self.addCleanup(os.close, fd)
        os.pwrite(fd, b"x", 0)
        domain = one.handle(OPEN_XRC, b"\1\0")
        devices = iter(range(1, 1000))

        def listening():
            made = one.call(CM_CREATE_ID, struct.pack("<IHB", channel, TCP, RC))
            if made[0] != 0:
                return made
            bound = one.call(CM_BIND, made[2][:4] + bytes(16) + struct.pack("<H", 0))
            return one.call(CM_LISTEN, made[2][:4] + struct.pack("<i", 1024)) if bound[0] == 0 else bound
        return {
            "completion queues": lambda: one.call(CREATE_CQ, LARGE),
            "small completion queues": lambda: one.call(CREATE_CQ, speaker.cq(1)),
            "shared receive queues": lambda: one.call(CREATE_SRQ, struct.pack("<III", pd, 32768, 16)),
            "queue pairs": lambda: one.call(CREATE_QP, speaker.qp(pd, small)),
            "long queue pairs": lambda: one.call(CREATE_QP, speaker.qp(pd, small, requests=32768)),
            "unreliable datagrams": lambda: one.call(CREATE_QP, speaker.qp(pd, small, kind=UD, requests=1000)),
            "XRC targets": lambda: one.call(CREATE_XRC_TARGET, struct.pack("<IBB", domain, 0, 0)),
            "XRC domains": lambda: one.call(OPEN_XRC, b"\1\0"),
            "regions": lambda: one.register(pd, [fd]),
            "null regions": lambda: one.call(CREATE_NULL, struct.pack("<I", pd)),
            "windows": lambda: one.call(CREATE_WINDOW, struct.pack("<IB", pd, 1)),
            "protection domains": lambda: one.call(CREATE_PD),
            "channels": lambda: one.call(CREATE_CHANNEL),
            "channels of connections": lambda: one.call(CM_CREATE_CHANNEL),
            "listening ids": listening,
            "opened devices": lambda: one.call(OPEN, text(b"uroce0"), device=next(devices)),
        }

    def test_each_kind_of_object(self):
        base = self.used()
        with self.speaker() as idle:
            names = list(self.kinds(idle))
        for name in names:
            with self.subTest(name), self.speaker(NOBODY) as one:
                count, error, words = self.fill(self.kinds(one)[name])
                expected = {"channels": errno.EMFILE, "channels of connections": errno.EMFILE}.get(name, errno.ENOMEM)
                if name != "opened devices":  # a program may have 256
                    self.assertEqual(error, expected, f"{count} {name}: {words}")
                    self.assertRegex(words, r"the limit|the most", name)
                self.assertLess(self.used(), LIMIT * 3 // 4, name)
                self.check_service()
            self.wait_for_return(base)

    def test_many_users_at_once(self):
        base = self.used()
        said = set()
        with contextlib.ExitStack() as stack:
            for uid in range(NOBODY, NOBODY - 8, -1):
                with user(uid):
                    one = stack.enter_context(Speaker(self.socket, greet=False))
                for op in (one.hello, lambda one=one: one.call(OPEN, text(b"uroce0"))):
                    error, words, _ = op()
                    if error != 0:
                        break
                if error == 0:
                    error, words = self.fill(lambda one=one: one.call(CREATE_CQ, LARGE))[1:]
                self.assertEqual(error, errno.ENOMEM, words)
                said.add(words)
            self.assertTrue([words for words in said if f"allows {LIMIT} " in words and f"{self.limited}/{self.MAX}" in words], said)
            self.assertLess(self.used(), LIMIT)
            self.check_service()
        self.wait_for_return(base)

    def test_a_limit_that_changes(self):
        with self.speaker(NOBODY) as one:
            error, words, _ = one.call(CREATE_CQ, LARGE)
            self.assertEqual(error, 0, words)

            def budget():
                return self.budgets()[NOBODY]["budgets"]["queue_bytes"]["limit"]
            self.assertEqual(budget(), LIMIT // 4)
            for limit in (LIMIT // 2, 2 * LIMIT):
                (self.limited / self.MAX).write_text(str(limit))
                self.wait_until(lambda limit=limit: budget() == limit // 4, "the new limit does not hold")
                self.daemon.wait_for(f"allows {limit // MIB} MiB of memory", 20)


class Version1(Limited, Case):
    USE, MAX = "memory.usage_in_bytes", "memory.limit_in_bytes"

    @staticmethod
    def parent():
        return first_version("memory")


class Version2(Limited, Case):
    USE, MAX = "memory.current", "memory.max"

    @staticmethod
    def parent():
        return second_version("memory")


class HugePages(Case):
    def limits(self):
        folder = second_version("hugetlb")
        if folder is None or harness.free_hugepages() < 40:
            self.skipTest("this machine gives the tests no group with a limit of huge pages, or has no such pages")
        self.limited = self.group(folder, **{"hugetlb.2MB.max": 64 * MIB})

    def test_beyond_the_limit_queues_have_ordinary_pages(self):
        self.assertIn("64 MiB of 2 MiB hugepages are free here", self.daemon.output)
        with self.speaker(NOBODY) as one:
            for number in range(12):
                answer = one.call(CREATE_CQ, LARGE)
                self.assertIsNotNone(answer, f"disconnected at queue {number}: {self.daemon}")
                self.assertEqual(answer[0], 0, answer[1])
            self.assertGreater(int((self.limited / "hugetlb.2MB.current").read_text()), 0)
            self.check_service()


class Threads(Case):
    def limits(self):
        folder = second_version("pids") or first_version("pids")
        if folder is None:
            self.skipTest("this machine gives the tests no group with a limit of threads")
        self.limited = self.group(folder, **{"pids.max": 16})

    def test_connections_beyond_the_limit_are_refused(self):
        served = []
        for _ in range(30):
            with user(NOBODY):
                one = Speaker(self.socket, greet=False)
            self.addCleanup(one.socket.close)
            try:
                answer = one.hello()
            except OSError:
                answer = None
            if answer is None or answer[0] != 0:
                break
            served.append(one)
        else:
            self.fail("30 connections had a thread each")
        self.assertIn("cannot start a thread", self.daemon.output)
        self.assertIn("TasksMax", self.daemon.output)
        self.assertEqual(served[0].call(OPEN, text(b"uroce0"))[0], 0, "those before are served")
        self.assertLess(len(served), 16)
        for one in served[1:]:
            one.socket.close()
        self.wait_until(lambda: self.threads() < 14, "threads do not end")
        self.check_service()

    def test_a_daemon_that_may_have_too_few_does_not_start(self):
        few = self.group(self.limited.parent, **{"pids.max": 4})
        said = self.finish(self.start(["sh", "-c", f'echo 0 > {few}/cgroup.procs && exec "$@"', "sh", test_users.verbs.UROCED, "--demo",
                                       "--socket", f"{self.socket}2"]), 30, code=1)
        self.assertIn("raise the limit (TasksMax of systemd, pids.max)", said)

    def threads(self):
        return int((self.limited / "pids.current").read_text())


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    harness.main()
