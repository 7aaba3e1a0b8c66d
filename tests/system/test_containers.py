#!/usr/bin/env python3
"""Two users in containers of their own, each root of a user namespace, share one daemon. Neither sees, slows below its share
or ends the other."""

import collections
import contextlib
import os
import re
import shutil
import subprocess
import time

import harness
import test_clients
from harness import BUILD
from speaker import CREATE_PD, Speaker, user

ALICE, BOB = 1001, 1002
PROGRAMS = [BUILD / "tests" / "system" / "clients" / f"client_{name}" for name in ("pair", "hostile", "sharer")]
UROCE = BUILD / "apps" / "uroce" / "uroce"


def inside(uid):
    """A user namespace in which the user is root."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "unshare", "--user", "--map-root-user"]


class Containers(test_clients.Case):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.folder.chmod(0o777)
        # Other users may not reach the build folder.
        self.programs = {path.name: shutil.copy(path, self.directory) for path in (*PROGRAMS, UROCE)}
        if subprocess.run([*inside(ALICE), "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine allows users no user namespace")

    def contained(self, uid, name, *args):
        return self.start([*inside(uid), self.programs[name], *args], env=self.env)

    def client(self, name, *args):
        """verified_pair() runs Alice's."""
        return self.contained(ALICE, f"client_{name}", *args)

    def seen_by(self, uid, what):
        return harness.loads(self.finish(self.contained(uid, "uroce", "show", what, "--json", "--socket", self.socket), 30))

    def test_neither_sees_the_other(self):
        with self.verified_pair():
            with user(BOB):
                bob = Speaker(self.socket)
            with bob:
                bob.handle(CREATE_PD)
                for what in ("client", "user"):
                    self.assertEqual({row["uid"] for row in self.seen_by(BOB, what)}, {BOB})
                    self.assertEqual({row["uid"] for row in self.seen_by(ALICE, what)}, {ALICE})
                for what in ("qp", "mr", "cq"):
                    self.assertEqual(self.seen_by(BOB, what), [])
                    rows = self.seen_by(ALICE, what)
                    self.assertNotEqual(rows, [])
                    self.assertEqual([row for row in rows if "key" in row or "rq_psn" in row], [])

    def test_neither_ends_the_other(self):
        for kind in ("rubbish", "structured"):
            with self.subTest(kind=kind):
                (self.folder / "stop").unlink(missing_ok=True)
                with self.verified_pair():
                    hostile = self.contained(BOB, "client_hostile", self.folder, kind, 1, 3)
                    self.assertIn("attacking", self.finish(hostile, 90))

    # Bytes that `sharer load 1` has posted when it says that it is ready, and that the two users send until their shares are compared.
    POSTED, COMPARED = 8 << 30, 1 << 30

    def test_neither_slows_the_other_below_its_share(self):
        """Alice's one queue pair had a hundredth of the bytes beside 256 of Bob. Now it has half of them, while both have something
        to send. tests/bench/run_fairness measures the bandwidth."""
        for _ in range(5):
            with self.talker(BOB, "load", 256):
                earlier = self.sent()
                with self.talker(ALICE, "load", 1):
                    begin = end = self.sent()
                    limit = time.monotonic() + 60 * harness.SLOW
                    while end[ALICE] + end[BOB] < begin[ALICE] + begin[BOB] + self.COMPARED:
                        self.assertLess(time.monotonic(), limit, f"{begin}, {end}")
                        end = self.sent()
            if end[ALICE] - earlier[ALICE] < self.POSTED:  # so she had something to send all the time
                break
        else:
            self.fail(f"Alice's work requests end before her bytes are counted twice: {earlier}, {begin}, {end}")
        alice, bob = (end[uid] - begin[uid] for uid in (ALICE, BOB))
        print(f"# Alice sent {alice >> 20} MiB, Bob {bob >> 20} MiB meanwhile")
        self.assertGreater(alice, (alice + bob) * 0.3)

    def sent(self):
        """Bytes of each user so far."""
        page = self.finish(self.start([UROCE, "stat", "--openmetrics", "--socket", self.socket]), 30)
        found = re.findall(r'(?m)^uroce_user_tx_bytes_total{uid="(\d+)".*} (\d+)$', page)
        return collections.Counter({int(uid): int(count) for uid, count in found})

    @contextlib.contextmanager
    def talker(self, uid, *args):
        command = [*inside(uid), self.programs["client_sharer"], *map(str, args)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **self.env}) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            yield process


if __name__ == "__main__":
    harness.main()
