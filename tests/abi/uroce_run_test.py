#!/usr/bin/env python3
"""uroce-run from its own view: exit codes, signals, the picture below /sys, starting and ending a daemon.

Usage: uroce_run_test.py UROCE_RUN LIBIBVERBS REDIRECTOR

LIBIBVERBS is a drop-in library over a stack in the process, so that no daemon is needed; where one is to be started, a
script stands in for it.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

UROCE_RUN, LIBIBVERBS, REDIRECTOR = sys.argv[1:4]

FAKE_DAEMON = """#!/bin/sh
echo "$@" > "$UROCE_TEST_DAEMON_FILE.arguments"
trap 'rm -f "$UROCE_TEST_DAEMON_FILE"; touch "$UROCE_TEST_DAEMON_FILE.ended"; exit 0' TERM
touch "$UROCE_TEST_DAEMON_FILE"
while :; do sleep 0.05; done
"""


class UroceRun(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="uroce-run-test."))
        self.addCleanup(shutil.rmtree, self.folder)
        for place, source in [
            ("apps/uroce-run/uroce-run", UROCE_RUN),
            ("lib/dropin/ibverbs/libibverbs.so.1", LIBIBVERBS),
            ("lib/dropin/sysfs/liburoce-sysfs.so", REDIRECTOR),
        ]:
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            # The library finds liburoce where it was built, so it stays there; the program looks beside itself.
            if place.startswith("apps"):
                shutil.copy(source, self.folder / place)
            else:
                (self.folder / place).symlink_to(pathlib.Path(source).resolve())
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("UROCE", "PYTHON"))}
        self.environment["TMPDIR"] = str(self.temporary)

    def command(self, *words):
        return [str(self.folder / "apps/uroce-run/uroce-run"), *words]

    def run_it(self, *words, **environment):
        result = subprocess.run(
            self.command(*words), env=self.environment | environment, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(list(self.temporary.iterdir()), [], "something was left behind")
        return result

    def test_exit_codes(self):
        self.assertEqual(self.run_it("true").returncode, 0)
        self.assertEqual(self.run_it("sh", "-c", "exit 42").returncode, 42)
        self.assertEqual(self.run_it("sh", "-c", "kill -9 $$").returncode, 128 + 9)
        missing = self.run_it("no-such-program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no-such-program", missing.stderr)

    def test_its_own_options(self):
        self.assertIn("Examples:", self.run_it("--help").stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^uroce-run \d+\.\d+\.\d+\n$")
        for words in [(), ("--nonsense",), ("--socket",)]:
            result = self.run_it(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn("--help", result.stderr)
        self.assertEqual(self.run_it("--socket", "/x", "sh", "-c", "echo $UROCE_SOCKET").stdout, "/x\n")

    def test_what_the_kernel_would_show(self):
        script = """
        cd /; set -e
        ls /sys/class/infiniband /sys/class/infiniband_verbs
        cat /sys/class/infiniband/uroce0/node_type
        cat /sys/class/infiniband/uroce0/ports/1/gid_attrs/types/0
        cat /sys/class/infiniband/uroce0/ports/1/gids/0
        cat /sys/class/infiniband/uroce1/ports/1/link_layer
        cat /sys/class/infiniband_verbs/uverbs1/ibdev
        test -d /sys/class/infiniband/uroce0/ports/1 && test ! -e /sys/class/infiniband/mlx5_0
        test -d /sys/class/net/lo
        """
        result = self.run_it("bash", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.split("\n")
        for wanted in ["uroce0", "uroce1", "uverbs0", "uverbs1", "1: CA", "RoCE v2", "Ethernet"]:
            self.assertIn(wanted, lines)
        self.assertIn("0000:0000:0000:0000:0000:ffff:0a75:0001", lines)
        python = "import os; print(sorted(os.listdir('/sys/class/infiniband')), os.path.exists('/sys/class/infiniband/uroce0'))"
        self.assertIn("['uroce0', 'uroce1'] True", self.run_it("/usr/bin/python3", "-c", python).stdout)

    def test_signals_reach_the_program(self):
        running = subprocess.Popen(
            self.command("sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"),
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        while running.stdout.readline() not in ("up\n", ""):
            pass
        time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
        self.assertEqual(running.returncode, 7)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_starts_a_daemon_and_ends_it(self):
        daemon = self.folder / "apps/uroced/uroced"
        daemon.parent.mkdir(parents=True)
        daemon.write_text(FAKE_DAEMON)
        daemon.chmod(0o755)
        life = self.folder / "life"
        result = self.run_it(
            "sh", "-c", "ls /sys/class/infiniband; exit 3", UROCE_TEST_DAEMON_FILE=str(life), UROCE_SOCKET="/tmp/s.sock"
        )
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("uroce0", result.stdout)
        said = [line for line in result.stderr.splitlines() if line.startswith("uroce-run:")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("uroced --demo", said[0])
        self.assertEqual(pathlib.Path(f"{life}.arguments").read_text(), "--demo --socket /tmp/s.sock\n")
        self.assertTrue(pathlib.Path(f"{life}.ended").exists(), "the daemon was not asked to end")

    def test_says_why_a_daemon_did_not_start(self):
        daemon = self.folder / "apps/uroced/uroced"
        daemon.parent.mkdir(parents=True)
        daemon.write_text("#!/bin/sh\necho no memory today\nexit 1\n")
        daemon.chmod(0o755)
        result = self.run_it("true", UROCE_TEST_DAEMON_FILE=str(self.folder / "life"), UROCE_SOCKET="/tmp/s.sock")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no memory today", result.stderr)
        self.assertIn("ended before it answered", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
