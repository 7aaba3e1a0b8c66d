#!/usr/bin/env python3
"""uroce-run from its own view: exit codes, signals, the picture below /sys, starting and ending a daemon.

Usage: uroce_run_test.py UROCE_RUN LIBIBVERBS REDIRECTOR

LIBIBVERBS is a drop-in library over a stack in the process, so that no daemon is needed; where one is to be started, a
script stands in for it.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

UROCE_RUN, LIBIBVERBS, REDIRECTOR = sys.argv[1:4]

# Answers, and ends once no uroce-run has the lock's second byte.
FAKE_DAEMON = """#!/usr/bin/python3
import fcntl, os, pathlib, struct, sys, time
life = os.environ["UROCE_TEST_DAEMON_FILE"]
pathlib.Path(life + ".arguments").write_text(" ".join(sys.argv[1:]))
pathlib.Path(life).touch()
users = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0)
fcntl.fcntl(int(os.environ["UROCED_LOCK"]), fcntl.F_OFD_SETLKW, users)
pathlib.Path(life).unlink()
pathlib.Path(life + ".ended").touch()
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
        # Later Meson names the folders of our libraries there, and every program would find them.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("UROCE", "PYTHON", "LD_LIBRARY_PATH"))}
        self.environment["TMPDIR"] = str(self.temporary)
        self.socket = str(self.folder / "s.sock")

    def command(self, *words):
        return [str(self.folder / "apps/uroce-run/uroce-run"), *words]

    def run_it(self, *words, **environment):
        result = subprocess.run(
            self.command(*words), env=self.environment | environment, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(list(self.temporary.iterdir()), [], "something was left behind")
        return result

    def test_a_path_that_cannot_be_searched(self):
        """As folders of other users; root can search those, and no loop of links."""
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        result = self.run_it("/bin/true", PATH=f"{loop}:{os.environ['PATH']}")
        self.assertEqual(result.returncode, 0, result.stderr)

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

    def test_devices_as_files(self):
        """UCX takes no device without a character device that it may read and write."""
        script = """
        cd /; set -e
        ls /dev/infiniband
        ls -l /dev/infiniband /sys/class/infiniband/uroce0 >/dev/null
        for node in uverbs0 uverbs1 rdma_cm; do
            test -c /dev/infiniband/$node -a -r /dev/infiniband/$node -a -w /dev/infiniband/$node
            test ! -L /dev/infiniband/$node
            : <>/dev/infiniband/$node
        done
        test -d /dev/infiniband -a ! -e /dev/infiniband/uverbs2 -a -c /dev/null
        stat -c %F /dev/infiniband/uverbs0
        """
        result = self.run_it("bash", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split("\n"), ["rdma_cm", "uverbs0", "uverbs1", "character special file", ""])

    def test_other_names_of_the_calls(self):
        """Those that programs of older C libraries and of other compiler options were linked to."""
        script = """
        import ctypes, os
        libc, path = ctypes.CDLL(None), b"/sys/class/infiniband/uroce0/node_type"
        seen = ctypes.create_string_buffer(4096)
        for name in ("__xstat", "__lxstat", "__xstat64", "__lxstat64"):
            assert getattr(libc, name)(1, path, seen) == 0, name
            assert getattr(libc, name)(1, b"/sys/class/infiniband/mlx5_0", seen) == -1, name
        for name in ("__open_2", "__open64_2"):
            assert os.read(getattr(libc, name)(path, os.O_RDONLY), 99) == b"1: CA\\n", name
        assert libc.eaccess(b"/dev/infiniband/rdma_cm", os.R_OK | os.W_OK) == 0
        os.chdir("/sys/class/infiniband")
        libc.__getcwd_chk.restype = ctypes.c_char_p
        assert libc.__getcwd_chk(seen, ctypes.c_size_t(4096), ctypes.c_size_t(4096)) == b"/sys/class/infiniband"
        """
        result = self.run_it("/usr/bin/python3", "-c", textwrap.dedent(script))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_view_as_working_directory(self):
        """ibstatus does `cd /sys/class/infiniband` and looks around."""
        for shell in ("dash", "bash"):
            script = "cd /sys/class/infiniband && echo * && pwd && cd uroce0/ports && /bin/pwd && cat 1/link_layer"
            result = self.run_it(shell, "-c", script)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.split("\n"), [
                "uroce0 uroce1", "/sys/class/infiniband", "/sys/class/infiniband/uroce0/ports", "Ethernet", ""])
        if shutil.which("ibstatus"):
            result = self.run_it("ibstatus")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.count("state:\t\t 4: ACTIVE"), 2, result.stdout)

    def test_a_killed_runs_folder_is_removed(self):
        """By the next run; the folder of one that still runs stays."""
        def end_group(leader):
            with contextlib.suppress(ProcessLookupError):  # all may have ended with it
                os.killpg(leader, signal.SIGKILL)

        def start():
            run = subprocess.Popen(self.command("sh", "-c", "echo up; exec sleep 600"), env=self.environment,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(run.wait)
            self.addCleanup(end_group, run.pid)
            self.assertEqual(run.stdout.readline(), "up\n")
            self.addCleanup(run.stdout.close)
            return run

        def folders():
            return set(self.temporary.iterdir())

        running = start()
        kept = folders()
        killed = start()
        killed.kill()
        killed.wait(120)
        foreign = self.temporary / "uroce-run.absent"
        foreign.symlink_to(self.folder)
        self.assertEqual(len(folders()), 3)
        subprocess.run(self.command("true"), env=self.environment, check=True, timeout=120)
        self.assertEqual(folders(), kept | {foreign})
        self.assertTrue(self.folder.exists())
        self.assertIsNone(running.poll())

    def test_a_signal_while_the_daemon_starts(self):
        """Ends the run, and leaves nothing behind."""
        self.make_daemon("#!/bin/sh\necho $$ > $UROCE_TEST_DAEMON_FILE.new\n"
                         "mv $UROCE_TEST_DAEMON_FILE.new $UROCE_TEST_DAEMON_FILE.up\nexec sleep 600\n")
        life = self.folder / "life"
        for number in (signal.SIGTERM, signal.SIGINT):
            run = subprocess.Popen(
                self.command("true"), stderr=subprocess.DEVNULL,
                env=self.environment | {"UROCE_TEST_DAEMON_FILE": str(life), "UROCE_SOCKET": self.socket})
            up = self.wait_for(f"{life}.up")
            run.send_signal(number)
            self.assertEqual(run.wait(120), 128 + number)
            os.kill(int(up.read_text()), signal.SIGKILL)  # one that hangs: others would end by themselves
            up.unlink()
            self.assertEqual(list(self.temporary.iterdir()), [])

    def test_signals_reach_the_program(self):
        running = subprocess.Popen(
            self.command("sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"),
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        while running.stdout.readline() not in ("up\n", ""):
            pass
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=120)
        self.assertEqual(running.returncode, 7)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def make_daemon(self, script):
        daemon = self.folder / "apps/uroced/uroced"
        daemon.parent.mkdir(parents=True)
        daemon.write_text(script)
        daemon.chmod(0o755)

    def wait_for(self, path):
        limit = time.monotonic() + 120
        while not pathlib.Path(path).exists():
            self.assertLess(time.monotonic(), limit, f"{path} appears within 120 s")
            time.sleep(0.01)
        return pathlib.Path(path)

    def test_starts_a_daemon_and_lets_it_go(self):
        self.make_daemon(FAKE_DAEMON)
        life = self.folder / "life"
        result = self.run_it(
            "sh", "-c", "ls /sys/class/infiniband; exit 3", UROCE_TEST_DAEMON_FILE=str(life), UROCE_SOCKET=self.socket
        )
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("uroce0", result.stdout)
        said = [line for line in result.stderr.splitlines() if line.startswith("uroce-run:")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("uroced --demo", said[0])
        self.assertEqual(pathlib.Path(f"{life}.arguments").read_text(), f"--demo --socket {self.socket}")
        self.wait_for(f"{life}.ended")

    def test_a_daemon_has_nothing_of_its_starter(self):
        """A pipe that it kept open would never end, and a folder that it stood in could not be unmounted."""
        self.make_daemon("#!/bin/sh\nls -l /proc/self/fd > $UROCE_TEST_DAEMON_FILE.fds; pwd >> $UROCE_TEST_DAEMON_FILE.fds\n")
        life = self.folder / "life"
        environment = self.environment | {"UROCE_TEST_DAEMON_FILE": str(life), "UROCE_SOCKET": "s.sock"}
        read, write = os.pipe()
        subprocess.run(self.command("true"), env=environment, cwd=self.folder, pass_fds=[write], capture_output=True, timeout=60)
        os.close(write)
        os.close(read)
        seen = self.wait_for(f"{life}.fds").read_text()
        self.assertNotIn("pipe:", seen)
        self.assertIn(f"{self.folder}/s.sock.lock", seen)
        self.assertEqual(seen.splitlines()[-1], "/")

    def test_says_why_a_daemon_did_not_start(self):
        self.make_daemon("#!/bin/sh\necho no memory today\nexit 1\n")
        result = self.run_it("true", UROCE_TEST_DAEMON_FILE=str(self.folder / "life"), UROCE_SOCKET=self.socket)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no memory today", result.stderr)
        self.assertIn("ended before it answered", result.stderr)

    def test_a_socket_where_none_can_be(self):
        result = self.run_it("true", UROCE_TEST_DAEMON_FILE=str(self.folder / "life"), UROCE_SOCKET="/proc/none/s.sock")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot start a daemon: /proc/none/s.sock.lock", result.stderr)

    def mixed(self, *words, **environment):
        """The lines about libraries."""
        if not shutil.which(words[0]):
            self.skipTest(f"{words[0]} is not installed")
        return [line for line in self.run_it(*words, **environment).stderr.splitlines() if line.startswith("uroce: ")]

    def test_a_missing_library(self):
        """The distribution's takes its place. Programs that need none of the kind say nothing."""
        (said,) = self.mixed("rping", "-?")
        missing = f"{self.folder.resolve()}/lib/dropin/rdmacm/librdmacm.so.1"
        build = self.folder.resolve()
        self.assertRegex(said, r"^uroce: rping has /\S+/librdmacm\.so\.1 in place of uroce's, so rdma_cm finds no device")
        self.assertTrue(said.endswith(f"{missing} is missing: build it with `ninja -C {build} lib/dropin/rdmacm/librdmacm.so.1`"), said)
        self.assertEqual(self.mixed("ibv_devices"), [])

    def test_a_librarys_path_of_the_programs_own(self):
        """In a child, too; and one that is loaded later is noticed at the end."""
        own = f"{self.folder}/own"
        os.mkdir(own)
        os.symlink("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", f"{own}/libibverbs.so.1")
        wanted = (f"has {own}/libibverbs.so.1 in place of uroce's, so it finds no device of uroce. Its own RPATH or "
                  f"LD_LIBRARY_PATH goes before uroce-run's: take it away, so that it gets "
                  f"{self.folder.resolve()}/lib/dropin/ibverbs/libibverbs.so.1")
        self.assertEqual(self.mixed("env", f"LD_LIBRARY_PATH={own}", "ibv_devices"), [f"uroce: ibv_devices {wanted}"])
        later = f"import ctypes; ctypes.CDLL('{own}/libibverbs.so.1')"
        self.assertEqual(self.mixed("/usr/bin/python3", "-c", later), [f"uroce: python3 {wanted}"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
