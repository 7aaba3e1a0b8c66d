#!/usr/bin/env python3
"""Two users in containers of their own, each root of a user namespace, share one daemon. Neither sees, slows below its share
or ends the other."""

import contextlib
import json
import os
import shutil
import subprocess

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
        return json.loads(self.finish(self.contained(uid, "uroce", "show", what, "--json", "--socket", self.socket), 30))

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

    def test_neither_slows_the_other_below_its_share(self):
        """Alice's one queue pair had a hundredth of its bandwidth beside 256 of Bob. Now it has some 45 %; a machine that is
        busy otherwise is the margin. tests/bench/run_fairness measures it."""
        for _ in range(5):
            # Other suites may run in one of the two seconds alone. A hundredth remains one in each try.
            with self.talker(ALICE, "victim") as alice:
                alone = self.gbps(alice)
                with self.talker(BOB, "load", 256):
                    beside = self.gbps(alice)
            print(f"# {alone:.2f} Gb/s alone, {beside:.2f} beside 256 queue pairs")
            if beside / alone > 0.15:
                return
        self.fail(f"{beside:.2f} Gb/s beside 256 queue pairs, {alone:.2f} alone")

    @contextlib.contextmanager
    def talker(self, uid, *args):
        command = [*inside(uid), self.programs["client_sharer"], *map(str, args)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **self.env}) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            yield process

    @staticmethod
    def gbps(process):
        process.stdin.write("bw 1\n")
        process.stdin.flush()
        return float(process.stdout.readline().split()[0])


if __name__ == "__main__":
    harness.main()
