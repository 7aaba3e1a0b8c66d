#!/usr/bin/env python3
"""Memory that clients can take back, as an unprivileged user does it. The daemon lives, pays for nothing, and ends in order."""

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import signal
import socket
import struct
import tempfile

import harness
import test_clients
import speaker
from speaker import CREATE_PD, OPEN, Speaker, memory, text, user

NOBODY = 65534
PUNCH_HOLE = 3  # with FALLOC_FL_KEEP_SIZE
libc = ctypes.CDLL(None, use_errno=True)


def punch(fd, length):
    """0 or the error."""
    return 0 if libc.fallocate(fd, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(length)) == 0 else ctypes.get_errno()


class Case(test_clients.Case):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)

    def speaker(self, *args, **kw):
        with user(NOBODY):
            return Speaker(self.socket, *args, **kw)

    def unprivileged(self, name, *args):
        command = [test_clients.CLIENTS / f"client_{name}", *args]
        if os.geteuid() == 0 and shutil.which("setpriv"):
            become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            if self.start([*become, "test", "-x", command[0]]).wait(20) == 0:
                command = become + command
        return self.start(command, env=self.env)


class Mappings(Case):
    ROUNDS = 100

    def fill(self, stack):
        """Connections of root, which may have all mappings that the daemon gives, take them; what it says then."""
        fd = memory(2 << 20)
        stack.callback(os.close, fd)
        pieces = [(0, 8192 * i % (2 << 20), 4096) for i in range(2000)]
        limit = int(open("/proc/sys/vm/max_map_count").read())
        said = set()
        later = [stack.enter_context(Speaker(self.socket, device=None)) for _ in range(4)]
        with contextlib.suppress(AssertionError, OSError, TypeError):
            for _ in range(limit // 16000 + 2):
                one = stack.enter_context(Speaker(self.socket))
                pd = one.handle(CREATE_PD)
                for some in (pieces, pieces[:1]):
                    while not (reply := one.register(pd, [fd], length=len(some) * 4096, segments=some))[0]:
                        pass
                    said.add(reply[1])
        # Their queues take what is left.
        for one in later:
            one.call(OPEN, text(b"uroce0"))
        return "\n".join(said)

    def test_memory_is_cut_short_while_all_mappings_are_taken(self):
        """Each round killed the daemon: SIGBUS, and no mapping was left to repair with."""
        with contextlib.ExitStack() as stack:
            taker = self.unprivileged("take_back", self.folder, self.ROUNDS)
            taker.wait_for("registered", 60)
            said = self.fill(stack)
            (self.folder / "go").touch()
            self.assertIn(f"{self.ROUNDS} pieces taken back", self.finish(taker, 120))
            self.assertIn("for all its clients", said)
            # It serves on, and ends in order with its mappings full.
            with self.speaker(device=None):
                pass
            self.daemon.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.daemon.wait(30), 0, str(self.daemon))
            self.daemon = None


class Holes(Case):
    def test_sparse_memory_is_not_filled(self):
        """One message took a gigabyte from the machine, at the daemon's expense."""
        size = 1 << 30
        fd = memory(size)
        os.pwrite(fd, b"x", size // 2)
        before = os.fstat(fd).st_blocks
        with self.speaker() as one:
            pd = one.handle(CREATE_PD)
            error, words, _ = one.register(pd, [fd], length=size, segments=[(0, 0, size)])
            self.assertEqual(error, 0, words)
            self.assertEqual(os.fstat(fd).st_blocks, before)
        os.close(fd)

    def test_more_holes_than_the_machine_can_spare(self):
        size = os.sysconf("SC_PHYS_PAGES") // 16 * 3 * 4096  # within a user's budget
        fd = memory(size)
        before = self.resources()
        with self.speaker() as one:
            pd = one.handle(CREATE_PD)
            error, words, _ = one.register(pd, [fd], length=size, segments=[(0, 0, size)])
            self.assertEqual(error, errno.ENOMEM)
            self.assertIn("MADV_POPULATE_WRITE", words)
            self.assertEqual(os.fstat(fd).st_blocks, 0)
        self.assert_returns_to(before)
        os.close(fd)


class Punched(Case):
    ROUNDS, MIB = 100, 1024
    GAP_MS = 100
    WAITS = 2
    """Of an engine, each longer than a user may make it wait: for one punch that nobody foresaw, and one that had begun by then."""

    def test_a_user_that_punches_is_stopped(self):
        """Each of the punches made the engine of all users wait for 0.3 s."""
        victim = self.client("gaps", self.folder, str(self.GAP_MS), self.daemon.process.pid)
        victim.wait_for("running", 60)
        with self.speaker() as same_user:
            pd = same_user.handle(CREATE_PD)
            attacker = self.unprivileged("puncher", str(self.ROUNDS), str(self.MIB))
            said = self.finish(attacker, 300)
            (self.folder / "stop").touch()
            gaps = self.finish(victim, 60)
            lines = [*said.strip().splitlines(), *gaps.strip().splitlines()]
            print("\n".join(f"# {line}" for line in lines))
            if "limits.punch_penalty" not in said:
                self.skipTest(f"no punch made the engine wait: {said}")
            self.daemon.wait_for("the process is disconnected", 20)
            log = self.daemon.output
            waits = log[log.index("the process is disconnected"):].count("pages of a file of") + 1
            self.assertLessEqual(waits, self.WAITS, log)
            # The user is refused, with the connection that it had before, too. Others are not.
            fd = memory(4096)
            error, words, _ = same_user.register(pd, [fd])
            self.assertEqual(error, errno.EACCES)
            self.assertIn("limits.punch_penalty", words)
            with Speaker(self.socket) as other:
                self.assertEqual(other.register(other.handle(CREATE_PD), [fd])[0], 0)
            os.close(fd)


    def test_a_user_that_goes_on_with_memory_from_before_loses_all_of_it(self):
        fd = memory(4096)
        with self.speaker() as bystander, Speaker(self.socket) as other:
            for one in (bystander, other):
                self.assertEqual(one.register(one.handle(CREATE_PD), [fd])[0], 0)
            second = self.unprivileged("puncher", "20", str(self.MIB // 4), self.folder / "go")
            second.wait_for("registered", 60)
            first = self.finish(self.unprivileged("puncher", "20", str(self.MIB // 4)), 120)
            if "limits.punch_penalty" not in first:
                self.skipTest(f"no punch made an engine wait: {first}")
            # Other processes of the user keep what they have.
            self.daemon.wait_for("the process is disconnected", 20)
            bystander.handle(CREATE_PD)
            self.assertIsNone(second.process.poll(), str(second))
            (self.folder / "go").touch()
            again = self.finish(second, 120)
            print(f"# second process: {again.splitlines()[-1]}")
            # It is refused memory in any case. The log says whether an engine waited for the memory that it had.
            if f"process {second.process.pid}) removed pages of a file" not in self.daemon.output:
                self.skipTest(f"no punch of the second process made an engine wait: {again}")
            self.daemon.wait_for("all its clients that have some are disconnected", 20)
            self.assertIsNone(bystander.call(CREATE_PD), "its memory could be punched, too")
            other.handle(CREATE_PD)
        os.close(fd)


class Disks(Case):
    def file_on_disk(self):
        file = tempfile.TemporaryFile(dir=self.directory)
        os.ftruncate(file.fileno(), 4096)
        kind = self.finish(self.start(["stat", "-f", "-c", "%T", str(self.directory)]), 20).strip()
        if kind == "tmpfs":
            self.skipTest(f"{self.directory} is in memory")
        return file

    def test_files_are_refused(self):
        with self.file_on_disk() as file, self.speaker() as one:
            error, words, _ = one.register(one.handle(CREATE_PD), [file.fileno()])
            self.assertEqual(error, errno.EOPNOTSUPP)
            self.assertIn("limits.file_memory", words)


class DisksAllowed(Disks):
    daemon_args = ("--set", "limits.file_memory=true")

    def test_files_are_refused(self):
        """Not when the operator allows them."""
        with self.file_on_disk() as file, self.speaker() as one:
            error, words, _ = one.register(one.handle(CREATE_PD), [file.fileno()])
            self.assertEqual(error, 0, words)


class QueueCase(Case):
    def piece(self, one, op, body):
        """The size of the piece of queue memory that a call brings, and the descriptors: the piece's comes first."""
        one.send(op, body)
        data, fds, _, _ = socket.recv_fds(one.socket, 65536, 250)
        _, error, length = struct.unpack_from("<IiI", data)
        self.assertEqual(error, 0, data[12:12 + length])
        chunks, = struct.unpack_from("<I", data, 12 + length)
        self.assertEqual(chunks, 1)
        _, size = struct.unpack_from("<IQ", data, 16 + length)
        return size, fds

    def opened(self):
        """A connection with a device, the descriptor and the size of its queues, and the pipes that wake engines."""
        one = self.speaker(device=None)
        size, fds = self.piece(one, OPEN, text(b"uroce0"))
        return one, fds[0], size, fds[1:]

    def close(self, one, *fds):
        for fd in fds:
            os.close(fd)
        one.socket.close()


class Queues(QueueCase):
    def test_a_user_that_punches_queues_in_use_is_disconnected(self):
        """Others go on, and the pages are not given again: each access would wait for the next punch."""
        with Speaker(self.socket) as other:
            one, fd, size, wakes = self.opened()
            with mmap.mmap(fd, size):
                one.handle(CREATE_PD)
                self.assertEqual(punch(fd, size), 0)
                for wake in wakes[1:]:
                    os.write(wake, b"1")
                self.daemon.wait_for("is disconnected: it removed the pages of its queues", 20)
            self.close(one, fd, *wakes)
            other.handle(CREATE_PD)


if __name__ == "__main__":
    harness.main()
