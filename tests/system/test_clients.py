#!/usr/bin/env python3
"""Clients that die, that are many, and that mean harm. The daemon and the others carry on, and nothing is left over."""

import contextlib
import mmap
import os
import pathlib
import random
import re
import resource
import socket
import struct
import time

import harness
import recordings
import verbs
from harness import BUILD, SLOW
import speaker
from speaker import (CLOSE, CM_ACCEPT, CM_CONNECT, CM_DISCONNECT, COUNTERS, CREATE_CHANNEL, CREATE_CQ, CREATE_PD, CREATE_QP,
                     CREATE_SRQ, DESTROY, HELLO, LIST_CLIENTS, LIST_ENGINES, LIST_OBJECTS, MODIFY, OPEN, REGISTER, Speaker, memory,
                     text)

CLIENTS = BUILD / "tests" / "system" / "clients"
IDLE = 500
IDLE_KIB = 100
RETRY_EXCEEDED = "ended with status 12"


class Case(verbs.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.directory / "meet"
        self.folder.mkdir()

    def client(self, name, *args):
        return self.start([CLIENTS / f"client_{name}", *args], env=self.env)

    def uroce(self, *args):
        command = [BUILD / "apps" / "uroce" / "uroce", *args, "--json", "--socket", self.socket]
        return harness.loads(self.finish(self.start(command), 30))

    def resources(self):
        """The daemon's resident KiB, descriptors, mappings and threads."""
        proc = pathlib.Path("/proc") / str(self.daemon.process.pid)
        status = dict(re.findall(r"(\w+):\s+(\d+)", (proc / "status").read_text()))
        return {"kib": int(status["VmRSS"]) + int(status.get("HugetlbPages", 0)), "fds": len(os.listdir(proc / "fd")),
                "maps": len((proc / "maps").read_text().splitlines()), "threads": int(status["Threads"])}

    def assert_returns_to(self, before, kib=16384, maps=48):
        """Within what the C library keeps for its threads."""
        most = {"fds": before["fds"], "threads": before["threads"], "maps": before["maps"] + maps,
                "kib": before["kib"] + kib + recordings.MOST_KIB}
        for _ in range(int(300 * SLOW)):
            now = self.resources()
            over = {name: f"{now[name]}, at most {limit}" for name, limit in most.items() if now[name] > limit}
            if not over:
                break
            time.sleep(0.1)
        self.assertEqual(over, {})

    def wait_for_survivors(self, count):
        """The daemon notices an end a moment later."""
        limit = time.monotonic() + 20 * SLOW
        while len(self.uroce("show", "client")) > count:
            self.assertLess(time.monotonic(), limit, "clients that ended are still listed")
            time.sleep(0.05)

    @contextlib.contextmanager
    def verified_pair(self):
        """Two clients whose traffic is checked, byte by byte, from here to the end of the block."""
        pair = self.client("pair", self.folder)
        pair.wait_for("running", 60)
        yield pair
        self.assertIsNone(pair.process.poll(), str(pair))
        before = self.rounds()
        limit = time.monotonic() + 60 * SLOW
        while self.rounds() <= before:
            self.assertLess(time.monotonic(), limit, f"no progress: {pair}\n{self.daemon}")
            time.sleep(0.05)
        (self.folder / "stop").touch()
        self.finish(pair, 90)

    def rounds(self):
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / "rounds").read_text())
        return 0


class Killed(Case):
    ROUNDS = 34

    def kill_one(self, number, rng, peer):
        """Until the peer knew: its queue pair used up its retries, where it had met the client."""
        victim = self.client("victim", self.folder, number)
        if number % 5 == 4:
            time.sleep(rng.uniform(0, 0.15))  # wherever that is: connecting, creating, streaming
        else:
            victim.wait_for("streaming", 30)
            time.sleep(rng.uniform(0, 0.1))
        victim.kill()
        (self.folder / f"dead-{number}").touch()
        peer.wait_for(f"round {number}: ", 30)
        limit = time.monotonic() + 30 * SLOW
        while not (line := self.line(peer, number)) and time.monotonic() < limit:
            time.sleep(0.005)
        self.assertIn(line, (RETRY_EXCEEDED, "never met"), f"round {number}: {peer}\n{victim}\n{self.daemon}")
        if number % 5 != 4:
            self.assertEqual(line, RETRY_EXCEEDED, str(victim))

    @staticmethod
    def line(peer, number):
        found = re.search(rf"round {number}: (.+)\n", peer.output)
        return found and found[1]

    def test_clients_killed_while_traffic_runs(self):
        seed = int(os.environ.get("UROCE_SEED", "1"))
        print(f"# seed {seed}")
        rng = random.Random(seed)
        peer = self.client("peer", self.folder)
        peer.wait_for("ready", 30)
        with self.verified_pair() as pair:
            for number in range(self.ROUNDS):
                self.kill_one(number, rng, peer)
                if number == 3:
                    self.wait_for_survivors(3)
                    before = self.resources()
            self.wait_for_survivors(3)
            clients = self.uroce("show", "client")
            pids = sorted(c["pid"] for c in clients)
            self.assertEqual(pids, sorted([peer.process.pid, pair.process.pid, pair.process.pid]))
            self.assertEqual(len(self.uroce("show", "qp")), 2)
            self.assertEqual(len(self.uroce("show", "mr")), 3)
            self.assertEqual(len(self.uroce("show", "cq")), 3)
            self.assert_returns_to(before)
        self.finish(peer, 30)
        self.assertRegex(self.daemon.output, r"client \d+ \(client_victim, process \d+\) has gone; it left \d+ queue pairs?, ")
        self.assertRegex(self.daemon.output, r"client \d+ \(client_peer, process \d+\): queue pair 0x\w+ to 0x\w+ at \S+ "
                                             r"ended with retry_exceeded \(status 12\)")


class Many(Case):
    WAITS_PER_QP = 5

    def test_ten_thousand_queue_pairs(self):
        self.finish(self.client("many_qps", 200), 60)
        before = self.resources()
        waits = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
        output = self.finish(self.client("many_qps", 10000), 120)
        waits = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - waits
        print(f"# 10000 queue pairs: {', '.join(output.split(chr(10))[:3])}; {waits} waits of the client")
        # One for the daemon's reply to each of its calls.
        self.assertLess(waits, 10000 * self.WAITS_PER_QP)
        self.assert_returns_to(before)

    def test_idle_connections_cost_little(self):
        """Each had 2 MiB of queues, and room for an event of each queue pair that the device can have."""
        def idle(device):
            one = Speaker(self.socket, device=device)
            self.addCleanup(one.socket.close)
            pd, cq = one.handle(CREATE_PD), one.handle(CREATE_CQ, speaker.cq(16))
            one.handle(CREATE_QP, speaker.qp(pd, cq, requests=16))
        for _ in range(10):
            idle(b"uroce0")
        before = self.resources()
        for number in range(IDLE):
            idle((b"uroce0", b"uroce1")[number % 2])
        each = (self.resources()["kib"] - before["kib"]) / IDLE
        print(f"# {each:.1f} KiB of the daemon for each of {IDLE} idle connections with a queue pair")
        self.assertLess(each, IDLE_KIB)

    def test_all_of_them_are_listed(self):
        many = self.start(["sh", "-c", f"exec {CLIENTS}/client_many_qps 3000"], env=self.env)
        many.wait_for("connect", 60)
        self.uroce("show", "qp")
        self.finish(many, 60)


class Hostile(Case):
    SECONDS = 4

    def attack(self, kind, seed):
        with self.verified_pair():
            hostile = self.client("hostile", self.folder, kind, seed, self.SECONDS)
            output = self.finish(hostile, self.SECONDS + 60)
            self.assertIn("attacking", output)
        self.wait_for_survivors(0)

    def test_rubbish_everywhere(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                (self.folder / "stop").unlink(missing_ok=True)
                self.attack("rubbish", seed)

    def test_work_requests_with_wild_fields(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                (self.folder / "stop").unlink(missing_ok=True)
                self.attack("structured", seed)

    def test_memory_that_is_cut_short(self):
        """While an engine writes there: the daemon lives, and the region's key ends."""
        with self.verified_pair():
            for _ in range(3):
                self.assertRegex(self.finish(self.client("shrink"), 60), "^ended after .* status 10")
        self.assertRegex(self.daemon.output, "removed the pages of its memory region 0x.*; the key is no longer valid")


class Messages(Case):
    def setUp(self):
        super().setUp()
        self.good = Speaker(self.socket, device=b"uroce1")

    def tearDown(self):
        """A client that was there before everything is served after it."""
        self.assertEqual(self.good.call(CREATE_PD)[0], 0)
        self.good.socket.close()
        super().tearDown()

    def assert_disconnected(self, speaker, why=None):
        while (reply := speaker.receive()) is not None:
            self.assertNotEqual(reply[0], 0)
        if why:
            self.daemon.wait_for(why, 20)

    def test_malformed(self):
        rng = random.Random(1)
        for op in range(1, 24):
            for length in (3, 17, 4000):
                with Speaker(self.socket, device=b"uroce0" if op != OPEN else None) as one:
                    # A byte more than any of that kind, or a list that says that it is longer than it is.
                    one.send(op, rng.randbytes(length) + b"\xff" * 8)
                    self.assert_disconnected(one)
        self.assertRegex(self.daemon.output, "is disconnected: the message for operation .* do not decode")

    def test_truncated(self):
        whole = struct.pack("<HII", REGISTER, 1, 0) + struct.pack("<IQQQII", 1, 0, 4096, 0, 7, 1) + b"\0" * 21
        for length in range(1, len(whole)):
            with Speaker(self.socket) as one:
                one.socket.send(whole[:length])
                self.assert_disconnected(one, "is disconnected: a message of")

    def test_oversized(self):
        with Speaker(self.socket) as one:
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            one.socket.send(b"\1" * 100000)
            self.assert_disconnected(one, "a message is longer than 65536 bytes")

    def test_silence_and_half_greetings(self):
        with Speaker(self.socket, greet=False) as silent, Speaker(self.socket, greet=False) as wrong:
            wrong.send(CREATE_PD)
            self.assert_disconnected(wrong, "the first message must be a hello")
            self.assert_disconnected(silent, "no hello came within")

    def test_replies_that_nobody_reads(self):
        with Speaker(self.socket) as one:
            one.socket.settimeout(30 * SLOW)
            with self.assertRaises(OSError):
                for _ in range(100000):
                    one.send(COUNTERS)
            self.daemon.wait_for("is disconnected: sendmsg", 30)

    def test_wrong_descriptors(self):
        folder = os.open(self.directory, os.O_RDONLY)
        read_end, write_end = os.pipe()
        with open(memory(4096), "r+b") as file, socket.socket() as tcp, open("/dev/zero", "r+b", 0) as zero, \
                open("/proc/self/maps", "rb") as maps, Speaker(self.socket) as one:
            pd = one.handle(CREATE_PD)
            path = os.open(f"/proc/self/fd/{file.fileno()}", os.O_PATH)
            read_only = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY)
            for fd in (read_end, write_end, tcp.fileno(), zero.fileno(), maps.fileno(), folder, path, read_only):
                error, words, _ = one.register(pd, [fd])
                self.assertNotEqual(error, 0)
                self.assertNotEqual(words, "")
            self.assertEqual(one.register(pd, [file.fileno()])[0], 0)
            self.assertNotEqual(one.register(pd, [])[0], 0, "no descriptor")
            for segments in ([(1, 0, 4096)], [(0, 0, 0)], [(0, 1, 4096)], [(0, 0, 8192)], [(0, 1 << 63, 4096)],
                             [(0, 0, 4096)] * 2):
                self.assertNotEqual(one.register(pd, [file.fileno()], segments=segments)[0], 0, segments)
            self.assertEqual(one.register(pd, [file.fileno()] * 190)[0], 0, "more than it needs")
            self.assertEqual(one.call(CREATE_PD, b"", [zero.fileno()] * 50)[0], 0, "where none belong")
            one.send(CREATE_PD, b"", [zero.fileno()] * 250)
            self.assert_disconnected(one, "descriptors were lost")
            for fd in (folder, read_end, write_end, path, read_only):
                os.close(fd)

    def test_huge_pages(self):
        """Asked for in pieces that are no whole huge page: nothing beside the mapping is touched."""
        if harness.free_hugepages() < 8:
            self.skipTest("no huge pages")
        huge, kib4 = 1 << 21, 4096
        fd = os.memfd_create("huge", os.MFD_HUGETLB)
        os.ftruncate(fd, 2 * huge)
        try:
            reserved = mmap.mmap(fd, 2 * huge)  # another suite may take the rest meanwhile
        except OSError:
            self.skipTest("no huge pages")
        with reserved, Speaker(self.socket) as one:
            pd = one.handle(CREATE_PD)
            self.assertEqual(one.register(pd, [fd], segments=[(0, 0, kib4)])[0], 0)
            self.assertEqual(one.register(pd, [fd], segments=[(0, huge - kib4, 2 * kib4)], length=8192,
                                          address=huge - kib4)[0], 0)
            self.assertNotEqual(one.register(pd, [fd], segments=[(0, 0, kib4)], address=kib4)[0], 0)
            self.assertNotEqual(one.register(pd, [fd], segments=[(0, 0, kib4)] * 2, length=8192)[0], 0)
        os.close(fd)

    def test_thousands_of_descriptors(self):
        before = self.resources()
        fd = memory(4096)
        for _ in range(4):
            with Speaker(self.socket) as one:
                for _ in range(20):
                    one.send(COUNTERS, b"", [fd] * 200)
                self.assertEqual(one.receive()[0], 0)
        os.close(fd)
        self.assert_returns_to(before)

    def test_more_memory_than_asked_for(self):
        """A sparse file of terabytes for one page of registered memory takes nothing from the daemon."""
        fd = memory(1 << 44)
        with Speaker(self.socket) as one:
            pd = one.handle(CREATE_PD)
            error, words, _ = one.register(pd, [fd], segments=[(0, 0, 1 << 44)])
            self.assertNotEqual(error, 0)
            self.assertIn("pass only the pages", words)
            error, words, _ = one.register(pd, [fd], length=1 << 44, segments=[(0, 0, 1 << 44)])
            self.assertIn("max_registered_bytes", words)
        os.close(fd)

    def test_memory_in_pieces_without_end(self):
        """No client takes all the mappings that the kernel allows the daemon."""
        fd = memory(2 << 20)
        pieces = [(0, 8192 * i % (2 << 20), 4096) for i in range(2000)]
        with Speaker(self.socket) as one:
            pd = one.handle(CREATE_PD)
            replies = [one.register(pd, [fd], length=2000 * 4096, segments=pieces) for _ in range(30)]
            self.assertEqual(replies[0][0], 0, replies[0][1])
            self.assertIn("vm.max_map_count", replies[-1][1])
            with Speaker(self.socket) as other:
                self.assertEqual(other.register(other.handle(CREATE_PD), [fd])[0], 0)
        os.close(fd)

    def test_handles_of_others_and_of_nobody(self):
        with Speaker(self.socket) as one, Speaker(self.socket) as other:
            pd = one.handle(CREATE_PD)
            cq = one.handle(CREATE_CQ, speaker.cq(16))
            self.assertEqual(one.handle(CREATE_PD), pd + 1)
            for number in (0, pd, pd + 1, 2**31, 2**32 - 1):
                for kind in range(0, 9):
                    self.assertNotEqual(other.call(DESTROY, struct.pack("<BI", kind, number))[0], 0)
                self.assertNotEqual(other.call(CREATE_SRQ, struct.pack("<III", number, 16, 1))[0], 0)
            self.assertEqual(one.call(DESTROY, struct.pack("<BI", 4, cq))[0], 0)
            self.assertEqual(one.call(DESTROY, struct.pack("<BI", 1, pd))[0], 0)

    def test_devices_of_one_connection(self):
        """Each number is a device of its own. A number that is too high is refused, and a closed one has no objects."""
        name = speaker.text(b"uroce0")
        with Speaker(self.socket) as one:
            self.assertNotEqual(one.call(OPEN, name, device=256)[0], 0)
            self.assertNotEqual(one.call(CREATE_PD, device=1)[0], 0)
            self.assertEqual(one.call(OPEN, name, device=1)[0], 0)
            self.assertNotEqual(one.call(OPEN, name, device=1)[0], 0)
            pd = one.handle(CREATE_PD)
            self.assertEqual(one.handle(CREATE_PD, device=1), pd)
            cq = one.handle(CREATE_CQ, speaker.cq(16), device=1)
            self.assertNotEqual(one.call(CREATE_QP, speaker.qp(pd, cq))[0], 0, "a queue of another device")
            self.assertEqual(one.call(CREATE_QP, speaker.qp(pd, cq), device=1)[0], 0)
            self.assertEqual(one.call(CLOSE, device=1)[0], 0)
            self.assertNotEqual(one.call(CREATE_PD, device=1)[0], 0)
            self.assertEqual(one.call(OPEN, name, device=1)[0], 0)
            self.assertNotEqual(one.call(CREATE_QP, speaker.qp(pd, cq), device=1)[0], 0, "what the last one had is gone")
            for number in range(2, 256):
                if one.call(OPEN, name, device=number)[0] != 0:
                    break
            self.assertNotEqual(one.call(OPEN, name, device=2**32 - 1)[0], 0)
            self.assertEqual(one.call(CREATE_PD)[0], 0)
        self.assertEqual(self.good.call(CREATE_PD)[0], 0)

    def test_requests_without_a_reply(self):
        """Thousands that fail: the next request has its own reply. One that does not decode ends the connection."""
        with Speaker(self.socket) as one:
            pd = one.handle(CREATE_PD)
            for _ in range(2000):
                one.send(DESTROY, struct.pack("<BI", 1, 2**31), sequence=0)
                one.send(CM_ACCEPT, bytes(34), sequence=0)
            self.assertEqual(one.handle(CREATE_PD), pd + 1)
            for _ in range(10):
                one.send(CREATE_PD, sequence=0)
            self.assertEqual(one.handle(CREATE_PD), pd + 12)
            one.send(CREATE_PD, b"\0", sequence=0)
            self.assertIsNone(one.receive())
        self.assertEqual(self.good.call(CREATE_PD)[0], 0)

    def test_rubbish_of_the_right_length(self):
        """Each message's bytes at random: an error, an end, or an answer, and the daemon lives."""
        rng = random.Random(2)
        lengths = {CREATE_CQ: 9, CREATE_SRQ: 12, CREATE_QP: 46, MODIFY: 4 + 4 + 94, DESTROY: 5, 11: 27, 12: 20, 13: 20,
                   LIST_OBJECTS: 9, LIST_CLIENTS: 4, LIST_ENGINES: 0, 19: 8, 10: 4, CM_CONNECT: 34, CM_ACCEPT: 34,
                   CM_DISCONNECT: 8, CLOSE: 0}
        one = Speaker(self.socket)
        for _ in range(3000):
            op = rng.choice(list(lengths))
            # Small numbers often: they are somebody's.
            body = bytes(rng.choice((0, 0, 0, 1, 2, rng.randrange(256))) for _ in range(lengths[op]))
            if one.call(op, body) is None:
                one.socket.close()
                one = Speaker(self.socket)
        one.socket.close()

    def test_flood_of_connections(self):
        before = self.resources()
        flood = []
        with contextlib.suppress(OSError):
            for _ in range(1200):
                one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                one.settimeout(20 * SLOW)
                flood.append(one)
                one.connect(str(self.socket))
        self.assertEqual(self.good.call(CREATE_PD)[0], 0)
        for one in flood:
            one.close()
        self.assert_returns_to(before, kib=65536, maps=96)
        with Speaker(self.socket) as one:
            self.assertEqual(one.call(CREATE_PD)[0], 0)

    def test_many_clients_are_listed(self):
        crowd = [Speaker(self.socket, device=None) for _ in range(700)]
        self.assertEqual(len(self.uroce("show", "client")) % 701, 0)
        for one in crowd:
            one.socket.close()

    def test_events_that_nobody_reads(self):
        """A client closes what it was given; the daemon tells it nothing, and does not trip."""
        with Speaker(self.socket) as one:
            for _ in range(100):
                self.assertEqual(one.call(CREATE_CHANNEL)[0], 0)


class Limits(Case):
    def start_daemon(self):
        command = [verbs.UROCED, "--demo", "--socket", self.socket]
        for setting in ("qp=2", "cq=2", "srq=2", "mr=2", "pd=2", "ah=2", "queue_bytes=16777216",
                        "registered_bytes=1048576"):
            command += ["--set", f"limits.max_{setting}"]
        command += ["--set", "daemon.max_clients=4"]
        daemon = self.start(command)
        daemon.wait_for("serving uroce0", 30)
        return daemon

    def test_each_limit_is_named(self):
        fd = memory(2 << 20)
        with Speaker(self.socket) as one:
            pds = [one.call(CREATE_PD) for _ in range(3)]
            pd, = struct.unpack_from("<I", pds[0][2])
            self.assertIn("max_pd", pds[2][1])
            self.assertIn("max_cq", [one.call(CREATE_CQ, speaker.cq(16)) for _ in range(3)][2][1])
            self.assertIn("max_srq", [one.call(CREATE_SRQ, struct.pack("<III", pd, 16, 1)) for _ in range(3)][2][1])
            self.assertIn("max_qp", [one.call(CREATE_QP, speaker.qp(pd, 1)) for _ in range(3)][2][1])
            self.assertIn("max_registered_bytes",
                          one.register(pd, [fd], length=2 << 20, segments=[(0, 0, 2 << 20)])[1])
            self.assertIn("max_mr", [one.register(pd, [fd]) for _ in range(3)][2][1])
        with Speaker(self.socket) as one:
            self.assertIn("max_queue_bytes", one.call(CREATE_CQ, speaker.cq(1 << 20))[1])
        os.close(fd)

    def test_connections(self):
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(Speaker(self.socket))
            with Speaker(self.socket, greet=False) as late:
                self.assertIn("max_clients", late.call(HELLO, b"")[1])
                self.assertIsNone(late.receive())


if __name__ == "__main__":
    harness.main()
