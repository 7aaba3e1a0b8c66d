#!/usr/bin/env python3
"""Programs and daemons of different releases speak the newest version of the protocol that both know.

With builds of other releases, by hand:
    UROCE_BUILD=build UROCE_OTHER_BUILDS=../before/build,../next/build tests/system/test_versions.py Builds
"""

import errno
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import threading
import unittest

import harness
import speaker
import test_users
import verbs
from harness import BUILD, SLOW, SOURCE
from speaker import CREATE_CQ, CREATE_PD, HELLO, LIST_ENGINES, MAGIC, OLDEST_PROTOCOL, OPEN, PROTOCOL, QUEUE_ABI, Speaker, memory, text

UNKNOWN = 9999
FIRST_WITH_RANGES = 23


def spoken(reply):
    """Protocol, layout of queues, version of the daemon in its answer to a hello, and the bytes behind."""
    magic, protocol, queues, length = struct.unpack_from("<IIII", reply)
    assert magic == MAGIC
    return protocol, queues, reply[16:16 + length].decode(), reply[16 + length:]


class OtherPrograms(test_users.Case):
    """Programs of other releases, at a daemon of this one."""

    def greeted(self, **versions):
        """A connection, the error and its text, and what the daemon answered."""
        one = self.speaker(greet=False, device=None)
        error, words, reply = one.hello(**versions)
        return one, error, words, reply

    def works(self, one):
        self.assertEqual(one.call(OPEN, text(b"uroce0"))[0], 0)
        pd = one.handle(CREATE_PD)
        error, words, _ = one.register(pd, [memory(4096)])
        self.assertEqual(error, 0, words)
        self.assertGreater(one.handle(CREATE_CQ, speaker.cq(16)), 0)

    def test_the_oldest(self):
        one, error, words, reply = self.greeted(protocol=OLDEST_PROTOCOL)
        self.assertEqual(error, 0, words)
        protocol, queues, _, rest = spoken(reply)
        self.assertEqual((protocol, queues), (OLDEST_PROTOCOL, QUEUE_ABI))
        if OLDEST_PROTOCOL < FIRST_WITH_RANGES:
            devices, length = struct.unpack_from("<II", rest)
            self.assertEqual((devices, rest[8:8 + length]), (2, b"uroce0"), "the devices follow at once")
        self.works(one)

    def test_a_later_one(self):
        one, error, words, reply = self.greeted(protocol=PROTOCOL + 5, queues=QUEUE_ABI + 2)
        self.assertEqual(error, 0, words)
        self.assertEqual(spoken(reply)[:2], (PROTOCOL, QUEUE_ABI))
        self.works(one)

    def test_none_in_common(self):
        for versions, side in ((dict(protocol=OLDEST_PROTOCOL - 1), "upgrade the application's library"),
                               (dict(protocol=PROTOCOL + 9, oldest=PROTOCOL + 1), "upgrade the daemon"),
                               (dict(queues=1, oldest_queues=1), "upgrade the application's library"),
                               (dict(queues=QUEUE_ABI + 9, oldest_queues=QUEUE_ABI + 1), "upgrade the daemon"),
                               (dict(protocol=PROTOCOL, oldest=PROTOCOL + 1), "upgrade the daemon")):
            with self.subTest(versions):
                _, error, words, _ = self.greeted(**versions)
                self.assertEqual(error, errno.EPROTONOSUPPORT)
                self.assertIn(side, words)
                self.assertIn("library is test (protocol ", words)
                self.assertIn(f"(protocol {OLDEST_PROTOCOL} to {PROTOCOL}, queues {QUEUE_ABI})", words, "the daemon's")

    def test_an_operation_of_later(self):
        one, error, words, _ = self.greeted(protocol=PROTOCOL + 1)
        self.assertEqual(error, 0, words)
        self.assertEqual(one.call(OPEN, text(b"uroce0"))[0], 0)
        error, words, _ = one.call(UNKNOWN)
        self.assertEqual(error, errno.EOPNOTSUPP)
        self.assertRegex(words, rf"this daemon, uroced [\d.]+, has no operation {UNKNOWN}")
        self.assertEqual(one.call(LIST_ENGINES)[0], 0, "the connection goes on")


class FakeDaemon:
    """Answers hellos: `answer(protocol, oldest)` gives the protocol that it says, or None to refuse as one that cannot decode."""

    def __init__(self, path, answer):
        self.answer, self.hellos = answer, []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.path, self.stopping = str(path), False
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def stop(self):
        self.stopping = True
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(self.path)
        self.thread.join()
        self.listener.close()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                if self.stopping:
                    return
                connection.settimeout(20 * SLOW)
                self.greet(connection)

    def greet(self, connection):
        packet = connection.recv(65536)
        op, sequence, _ = struct.unpack_from("<HII", packet)
        magic, protocol, _, length = struct.unpack_from("<IIII", packet, 10)
        assert (op, magic) == (HELLO, MAGIC)
        tail = packet[26 + length:]
        oldest = struct.unpack_from("<I", tail)[0] if tail else protocol
        self.hellos.append((protocol, oldest))
        said = self.answer(protocol, oldest)
        if said is None:
            words = b"the message for operation 1 has bytes that do not decode"
            connection.send(struct.pack("<IiI", sequence, errno.EPROTO, len(words)) + words + bytes(4))
            return
        daemon = struct.pack("<III", MAGIC, said, QUEUE_ABI) + text(b"9.9.9")
        if said >= FIRST_WITH_RANGES:
            daemon += struct.pack("<IIQ", said, QUEUE_ABI, 1 << 63)
        connection.send(struct.pack("<IiII", sequence, 0, 0, 0) + daemon + bytes(4))  # no devices
        connection.recv(65536)  # until it closes


class OtherDaemons(harness.Case):
    """A program of this release, at daemons of other ones."""

    def ask(self, answer, code=0):
        """The hellos that came, and what `uroce devices` wrote."""
        path = self.directory / "socket"
        fake = FakeDaemon(path, answer)
        self.addCleanup(fake.stop)
        uroce = self.start([BUILD / "apps" / "uroce" / "uroce", "devices", "--socket", path])
        output = self.finish(uroce, 30, code=code)
        return fake.hellos, output

    def test_before_there_were_ranges(self):
        hellos, _ = self.ask(lambda protocol, oldest: 22 if protocol == 22 else None)
        self.assertEqual(hellos, [(PROTOCOL, OLDEST_PROTOCOL), (22, 22)])

    def test_a_later_one(self):
        hellos, _ = self.ask(lambda protocol, oldest: min(protocol, PROTOCOL + 3))
        self.assertEqual(hellos, [(PROTOCOL, OLDEST_PROTOCOL)])

    def test_one_that_answers_what_nobody_offered(self):
        _, output = self.ask(lambda protocol, oldest: protocol + 1, code=1)
        self.assertRegex(output, rf"is 9.9.9 and answers with protocol {PROTOCOL + 1} .* did not offer; upgrade the daemon")


def next_release():
    """A build of this tree with a later protocol: registrations and device descriptions have one member more each."""
    tree = BUILD / "next-release"
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["git", "-C", SOURCE, "worktree", "prune"], check=True)
    names = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (SOURCE / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, tree / name)

    def edit(name, *changes):
        text_now = (tree / name).read_text()
        for before, after in changes:
            assert text_now.count(before) == 1, f"{name} no longer has {before!r}"
            text_now = text_now.replace(before, after)
        (tree / name).write_text(text_now)

    edit("lib/message/protocol.h", (f"kProtocol = {PROTOCOL};", f"kProtocol = {PROTOCOL + 1};"))
    edit("lib/message/memory_messages.h",
         ("  bool prepared = false;  ", "  uint64_t later = 7;\n  bool prepared = false;  "),
         ("self.access, self.segments, self.prepared);\n",
          f"self.access, self.segments, self.prepared);\n    archive.since({PROTOCOL + 1}, self.later);\n"))
    build = tree / "build"
    subprocess.run(["meson", "setup", build, tree, "-Dbuildtype=release"], check=True, stdout=subprocess.DEVNULL)
    targets = ["uroced", "uroce", "uroce-run", "libibverbs.so.1", "librdmacm.so.1", "liburoce-sysfs.so"]
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True, text=True).stdout
    wanted = [line.split(":")[0] for line in listed.splitlines() if re.search(rf"(^|/)({'|'.join(map(re.escape, targets))})(\.0[.\d]*)?: ", line)]
    subprocess.run(["ninja", "-C", build, *wanted], check=True, stdout=subprocess.DEVNULL)
    return build


class Builds(harness.Case):
    """Daemon and library of different builds."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.others = [pathlib.Path(name) for name in os.environ.get("UROCE_OTHER_BUILDS", "").split(",") if name]
        if os.environ.get("UROCE_NEXT_RELEASE"):
            cls.others.append(next_release())
        if not cls.others:
            raise unittest.SkipTest("UROCE_NEXT_RELEASE=1 builds one with a later protocol; UROCE_OTHER_BUILDS names builds")

    def exchange(self, daemon, library):
        """A ping-pong of queue pairs of `library` through the daemon of another build."""
        own = self.directory / f"{len(list(self.directory.iterdir()))}.sock"
        served = self.start([daemon / "apps" / "uroced" / "uroced", "--demo", "--idle", "sleep", "--socket", own])
        served.wait_for("serving uroce0", 30)
        port = harness.free_port()
        run = [library / "apps" / "uroce-run" / "uroce-run", "--socket", own, "ibv_rc_pingpong", "-g", "0", "-n", "200", "-c", "-p", port, "-d"]
        server = self.start([*run, "uroce0"])
        verbs.wait_for_listener(server, port)
        client = self.start([*run, "uroce1", "127.0.0.1"])
        for one in (server, client):
            self.assertIn("200 iters", self.finish(one, 60))
        served.process.terminate()
        self.finish(served, 30)

    def test_both_ways(self):
        for other in self.others:
            with self.subTest(other):
                self.exchange(daemon=BUILD, library=other)
                self.exchange(daemon=other, library=BUILD)


if __name__ == "__main__":
    harness.main()
