#!/usr/bin/env python3
"""Users who share a daemon: each has its budget, and none takes another's or root's."""

import errno
import fcntl
import json
import os
import resource
import socket
import struct
import time
import unittest

import harness
import verbs
from harness import BUILD, SLOW, eal
import speaker
from speaker import (CM_BIND, CM_CREATE_CHANNEL, CM_CREATE_ID, CM_RESOLVE, CREATE_AH, CREATE_CHANNEL, CREATE_CQ, CREATE_PD,
                     CREATE_QP, Speaker, memory, user)

UROCE = BUILD / "apps" / "uroce" / "uroce"
ALICE, BOB = 1001, 1002
TCP, RC = 0x0106, 2
ANY = bytes(16)
PEER = bytes(10) + b"\xff\xff" + bytes((10, 117, 0, 2))
MOST = 100_000
OPEN_XRC_DOMAIN = 40
ATTEMPTS = int(os.environ.get("UROCE_ATTEMPTS", "3"))  # of each attack


class Case(verbs.Case):
    MODE = ("--demo",)
    SETTINGS = ()
    PREFIX = ()

    def start_daemon(self):
        self.directory.chmod(0o755)
        command = [*self.PREFIX, verbs.UROCED, *self.MODE, "--socket", self.socket]
        for setting in self.SETTINGS:
            command += ["--set", setting]
        daemon = self.start(command)
        daemon.wait_for("serving uroce0", 30)
        return daemon

    def speaker(self, uid=0, **options):
        with user(uid):
            one = Speaker(self.socket, **options)
        self.addCleanup(one.socket.close)
        return one

    def uroce(self, *args, prefix=()):
        return self.finish(self.start([*prefix, UROCE, *args, "--socket", self.socket]), 30)

    def budgets(self):
        """Rows of `uroce show user` by uid."""
        return {row["uid"]: row for row in json.loads(self.uroce("show", "user", "--json"))}

    def fill(self, call):
        """How often `call` succeeded, and the refusal."""
        for count in range(MOST):
            error, words, _ = call()
            if error != 0:
                return count, error, words
        raise AssertionError(f"{MOST} calls succeeded")


class Objects(Case):
    SETTINGS = ("engines.max_qp=64", "engines.max_mr=64")

    def queue_pairs_of(self, uid):
        """A call that creates one more."""
        one = self.speaker(uid)
        pd, cq = one.handle(CREATE_PD), one.handle(CREATE_CQ, speaker.cq(16))
        return lambda: one.call(CREATE_QP, speaker.qp(pd, cq))

    def test_queue_pairs(self):
        count, error, words = self.fill(self.queue_pairs_of(ALICE))
        self.assertEqual((count, error), (16, errno.ENOMEM), words)
        self.assertIn(f"user {ALICE} has 16 queue pairs and asks for 1 more; the limit is 16 (max_qp; engines.max_qp)", words)
        self.assertEqual(self.fill(self.queue_pairs_of(ALICE))[0], 0, "another connection does not help")
        self.assertEqual(self.fill(self.queue_pairs_of(BOB))[0], 16)
        self.assertEqual(self.fill(self.queue_pairs_of(0))[0], 32, "what is left")

    def test_regions(self):
        fd = memory(4096)
        self.addCleanup(os.close, fd)

        def regions_of(uid):
            one = self.speaker(uid)
            pd = one.handle(CREATE_PD)
            return lambda: one.register(pd, [fd])
        self.assertEqual(self.fill(regions_of(ALICE))[:2], (16, errno.ENOMEM))
        self.assertEqual(self.fill(regions_of(BOB))[0], 16)
        self.assertEqual(regions_of(0)()[0], 0)

    def test_what_ends_comes_back(self):
        for _ in range(3):
            with user(ALICE):
                one = Speaker(self.socket)
            self.assertEqual(self.fill(lambda: one.call(CREATE_PD))[1], errno.ENOMEM)
            one.socket.close()
            limit = time.monotonic() + 20 * SLOW
            while ALICE in self.budgets() and time.monotonic() < limit:
                time.sleep(0.01)
            self.assertNotIn(ALICE, self.budgets())

    def test_one_sees_ones_own_budget(self):
        self.fill(self.queue_pairs_of(ALICE))
        self.queue_pairs_of(BOB)()
        rows = self.budgets()
        self.assertEqual(rows[ALICE]["budgets"]["qp"], {"used": 16, "limit": 16})
        self.assertEqual(rows[ALICE]["refusals"], 1)
        self.assertEqual(rows[BOB]["budgets"]["qp"]["used"], 1)
        self.assertFalse(rows[BOB]["privileged"])
        self.assertTrue(rows[0]["privileged"])
        own = json.loads(self.uroce("show", "user", "--json", prefix=("setpriv", f"--reuid={BOB}", "--clear-groups")))
        self.assertEqual([row["uid"] for row in own], [BOB])
        self.assertRegex(self.uroce("show", "user"), rf"(?m)^ *{ALICE} +no +qp +16 +16$")
        self.assertEqual(self.daemon.output.count(f"is refused: user {ALICE} has 16 queue pairs"), 1)


class Shared(Case):
    """With the sizes as they are shipped."""

    def test_connections(self):
        crowd = []

        def connect():
            with user(ALICE):
                crowd.append(Speaker(self.socket, greet=False))
            self.addCleanup(crowd[-1].socket.close)
            return crowd[-1].hello()
        count, error, words = self.fill(connect)
        self.assertEqual((count, error), (256, errno.ENOMEM), words)
        self.assertIn("max_connections", words)
        self.assertEqual(self.speaker(BOB).call(CREATE_PD)[0], 0)
        self.assertEqual(self.speaker(0).call(CREATE_PD)[0], 0)

    def test_address_handles(self):
        one = self.speaker(ALICE)
        pd = one.handle(CREATE_PD)
        handle = struct.pack("<I", pd) + PEER + struct.pack("<BBBI", 0, 64, 0, 0)
        self.assertEqual(self.fill(lambda: one.call(CREATE_AH, handle))[:2], (16384, errno.ENOMEM))
        other = self.speaker(BOB)
        self.assertEqual(other.call(CREATE_AH, struct.pack("<I", other.handle(CREATE_PD)) + handle[4:])[0], 0)

    def test_ports(self):
        def binder(uid):
            one = self.speaker(uid, device=None)
            channel = one.handle(CM_CREATE_CHANNEL)

            def bind():
                made = one.call(CM_CREATE_ID, struct.pack("<IHB", channel, TCP, RC))
                if made[0] != 0:
                    return made
                return one.call(CM_BIND, made[2][:4] + ANY + struct.pack("<H", 0))
            return bind
        count, error, words = self.fill(binder(ALICE))
        self.assertEqual((count, error), (16384, errno.ENOMEM), words)
        self.assertIn("max_cm_id", words)
        self.assertEqual(binder(BOB)()[0], 0)
        self.assertEqual(binder(0)()[0], 0)

    def test_silent_addresses(self):
        """A user who asks for addresses that nobody answers floods neither the link nor the table of neighbours."""
        def asked():
            shown = self.uroce("stat", "--json", "--all", "--interval", "0")
            return sum(row["counters"]["neighbour_requests"] for row in json.loads(shown))

        def silent(number):
            return b"\xfe\x80" + bytes(12) + struct.pack("!H", number)
        one = self.speaker(ALICE, device=None)
        channel = one.handle(CM_CREATE_CHANNEL)
        before, began = asked(), time.monotonic()
        for number in range(5000):
            if number % 100 == 0:
                handle = one.handle(CM_CREATE_ID, struct.pack("<IHB", channel, TCP, RC))
            remote = silent(number) + struct.pack("<H", 4711)
            error, words, _ = one.call(CM_RESOLVE, struct.pack("<I?", handle, False) + ANY + bytes(2) + remote + bytes(4))
            self.assertEqual(error, 0, words)
        took = time.monotonic() - began
        self.assertLessEqual(asked() - before, 256 * (took + 2))
        root = self.speaker(0)
        handle = struct.pack("<I", root.handle(CREATE_PD)) + PEER + struct.pack("<BBBI", 0, 64, 0, 0)
        self.assertEqual(root.call(CREATE_AH, handle)[0], 0)

    def test_root_of_a_container_is_not_root(self):
        self.speaker(BOB).handle(CREATE_PD)
        contained = ("unshare", "--user", "--map-root-user")
        rows = json.loads(self.uroce("show", "client", "--json", prefix=contained))
        self.assertEqual([row for row in rows if row["uid"] == BOB], [])
        capture = self.start([*contained, UROCE, "capture", "-w", "/dev/null", "--device", "uroce0", "--socket", self.socket])
        self.finish(capture, 30, code=1)
        self.assertIn("capturing is for root", capture.output)


class Descriptors(Case):
    PREFIX = ("prlimit", "--nofile=2048:2048")

    def test_descriptors(self):
        """One user's channels leave enough for another's, and for messages with as many descriptors as there may be."""
        one = self.speaker(ALICE)
        count, error, words = self.fill(lambda: one.call(CREATE_CHANNEL))
        self.assertEqual((count, error), ((512 - 8) // 2, errno.EMFILE), words)
        self.assertIn("max_descriptors", words)
        other = self.speaker(BOB)
        fds = [memory(4096) for _ in range(200)]
        for fd in fds:
            self.addCleanup(os.close, fd)
        error, words, _ = other.register(other.handle(CREATE_PD), fds, length=200 * 4096,
                                         segments=[(number, 0, 4096) for number in range(200)])
        self.assertEqual(error, 0, words)


class Subordinates(Case):
    """The uids of a range of /etc/subuid, which one user may have in containers."""
    SETTINGS = ("engines.max_qp=64",)

    def start_daemon(self):
        # Each daemon has a file of its own in place of the machine's.
        self.file = self.directory / "subuid"
        self.file.write_text(f"{ALICE}:100000:65536\n")
        bind = f'mount --bind {self.file} /etc/subuid && exec "$@"'
        self.PREFIX = ("unshare", "--mount", "--propagation", "private", "sh", "-c", bind, "sh")
        return super().start_daemon()

    def most(self, uid):
        """How many queue pairs it gets, which it keeps."""
        one = self.speaker(uid)
        pd, cq = one.handle(CREATE_PD), one.handle(CREATE_CQ, speaker.cq(16))
        return self.fill(lambda: one.call(CREATE_QP, speaker.qp(pd, cq)))

    def test_are_charged_to_their_owner(self):
        self.assertEqual(self.most(100001)[0], 16)
        for uid in (100002, 100003, 100004, ALICE):
            count, error, words = self.most(uid)
            self.assertEqual((count, error), (0, errno.ENOMEM))
            self.assertIn(f"user {ALICE} has 16 queue pairs", words)
        self.assertEqual(self.most(BOB)[0], 16)
        self.assertEqual(self.budgets()[ALICE]["budgets"]["qp"]["used"], 16)
        self.file.write_text("")
        self.assertEqual(self.most(100002)[0], 16, "the file has changed")


class Tenants(Subordinates):
    SETTINGS = (*Subordinates.SETTINGS, "limits.tenant_ranges=true")

    def test_are_charged_to_their_owner(self):
        """Their range is one user, and its owner is another."""
        self.assertEqual(self.most(100001)[0], 16)
        count, _, words = self.most(100002)
        self.assertEqual(count, 0)
        self.assertIn("user 100000 has 16 queue pairs", words)
        self.assertEqual(self.most(ALICE)[0], 16)


class Passed(Case):
    """Descriptors that a client passes, or changes."""

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes other users")
    def test_a_domain_needs_an_open_file(self):
        """O_PATH opens a file that its user may neither read nor write."""
        path = self.directory / "domain"
        own = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.addCleanup(os.close, own)
        os.chown(path, BOB, BOB)
        self.assertEqual(self.speaker(BOB).call(OPEN_XRC_DOMAIN, struct.pack("<??", True, False), [own])[0], 0)
        for _ in range(ATTEMPTS):
            with user(ALICE):
                with self.assertRaises(PermissionError):
                    os.open(path, os.O_RDONLY)
                stolen = os.open(path, os.O_PATH)
            error, words, _ = self.speaker(ALICE).call(OPEN_XRC_DOMAIN, struct.pack("<??", False, False), [stolen])
            os.close(stolen)
            self.assertEqual(error, errno.EBADF, words)

    def test_seals_on_queues(self):
        """A client that seals its queues against writing would keep a daemon from taking over."""
        one = self.speaker(ALICE, device=None)
        one.send(speaker.OPEN, speaker.text(b"uroce0"))
        fds = socket.recv_fds(one.socket, 65536, 250)[1]
        F_SEAL_FUTURE_WRITE = 16
        for seal in (fcntl.F_SEAL_SEAL, fcntl.F_SEAL_WRITE, F_SEAL_FUTURE_WRITE):
            with self.assertRaises(PermissionError):
                fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, seal)
        for fd in fds:
            os.close(fd)
        one.handle(CREATE_PD)


class Configured(Case):
    def start_daemon(self):
        path = self.directory / "uroced.toml"
        path.write_text(f'[limits]\nmax_pd = 3\n[[user]]\nname = "{ALICE}"\nmax_pd = 5\n')
        self.MODE = (*eal("--vdev=net_null0"), "--", "--config", path)
        return super().start_daemon()

    def test_limits_of_all_and_of_one(self):
        def protection_domains_of(uid):
            one = self.speaker(uid)
            return lambda: one.call(CREATE_PD)
        self.assertEqual([self.fill(protection_domains_of(uid))[0] for uid in (ALICE, BOB, 0)], [5, 3, 3])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    harness.main()
