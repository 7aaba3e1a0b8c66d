#!/usr/bin/env python3
"""config/demo.py, the second half of the demo, on small and on busy machines, and where it fails; config/common.sh's progress.

Ten runs beside 20 busy programs, some minutes each, and one with half a CPU:
    UROCE_BUILD=build UROCE_DEMO_RUNS=10 tests/system/test_demo.py Long
The whole demo from a fresh clone, packages and build included, on a bare Debian (ten minutes):
    UROCE_BUILD=build UROCE_BARE_DEMO=1 tests/system/test_demo.py Bare
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import unittest

import bare_debian
import harness
from bare_debian import BareDebian

APPS = harness.BUILD / "apps"
DEMO = harness.SOURCE / "config" / "demo.py"
RUNS = int(os.environ.get("UROCE_DEMO_RUNS", "0"))
BUSY_PROGRAMS = 20
CPU_GROUPS = pathlib.Path("/sys/fs/cgroup")
USER = 61234  # nobody else's


def titles_of_the_readme():
    return re.search(r"^ +64 KiB, Gb/s.*$", (harness.SOURCE / "README.md").read_text(encoding="utf-8"), re.MULTILINE).group()


class Demo(harness.Case):
    def demo(self, *before, python=sys.executable, **kw):
        return self.start([*before, python, "-B", DEMO, APPS], **kw)

    def ends_well(self, program, seconds=600):
        output = self.finish(program, seconds)
        for name in ("WRITE", "READ", "SEND", "FETCH_ADD"):
            self.assertIn(f"== verified {name}", output)
            self.assertRegex(output, rf"(?m)^{name} +[\d.-]+ +[\d.]+ +[\d.]+ +[\d.]+$")
        self.assertIn(titles_of_the_readme().strip(), output)
        self.assertRegex(output, r"\n *65536 +2000 +[\d.]+ ")
        self.assertIn("1000 iters in", output)
        return output

    def keep_busy(self):
        """20 programs that take every CPU, until this one ends."""
        for _ in range(BUSY_PROGRAMS):
            self.start(["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"])


PROGRAMS = unittest.skipUnless(shutil.which("ib_write_bw") and shutil.which("ibv_rc_pingpong"), "needs perftest and ibverbs-utils")


@PROGRAMS
class EndsWell(Demo):
    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user and to hide huge pages")
    def test_with_little(self):
        """One core, no huge pages, and a user who may write nowhere but in a folder."""
        self.directory.chmod(0o755)
        mine = self.directory / "tmp"
        mine.mkdir()
        os.chown(mine, USER, USER)
        (self.directory / "none").write_text("0\n")
        hide = f"for f in /sys/kernel/mm/hugepages/*/free_hugepages; do mount --bind {self.directory}/none $f; done; exec \"$@\""
        program = self.demo("unshare", "--mount", "sh", "-c", hide, "sh", "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                            "--bounding-set=-all", "--inh-caps=-all", "taskset", "-c", harness.CPUS[0], python="/usr/bin/python3",  # root's own may be out of reach
                            env={"TMPDIR": str(mine), "HOME": str(mine), "XDG_RUNTIME_DIR": str(mine)})
        self.assertIn("in one process on one core, 4 KiB pages", self.ends_well(program))

    def test_benchmark_beside_busy_programs(self):
        """As the demo and tests/bench/run do for each figure. The note says that the machine was busy."""
        self.keep_busy()
        text = ("import sys; sys.path.insert(0, sys.argv[1]); import pair\nwith pair.Pair(sys.argv[2]) as ends:\n"
                "  ends.measure('write_bw', '-D', '1')\n  print(ends.note())")
        program = self.start([sys.executable, "-B", "-c", text, DEMO.parent, harness.PERF])
        self.assertRegex(self.finish(program, 800), r"(?m)^measured on a busy machine: .*load \d")


@PROGRAMS
@unittest.skipUnless(RUNS, "takes minutes; UROCE_DEMO_RUNS=10 asks for ten runs")
class Long(Demo):
    def test_beside_busy_programs(self):
        self.keep_busy()
        for number in range(RUNS):
            output = self.ends_well(self.demo(), 1200)
            self.assertRegex(output, r"\nmeasured on a busy machine: .*load \d")
            print(f"# run {number + 1} of {RUNS} ended well", flush=True)

    def limited(self):
        """A cgroup with half a CPU; the words that run a program in it."""
        if (CPU_GROUPS / "cpu").is_dir():
            group, quota = CPU_GROUPS / "cpu" / f"uroce-test-{os.getpid()}", {"cpu.cfs_quota_us": "50000"}
        else:
            group, quota = CPU_GROUPS / f"uroce-test-{os.getpid()}", {"cpu.max": "50000 100000"}
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            for name, value in quota.items():
                (group / name).write_text(value)
        except OSError as e:
            self.skipTest(f"this machine makes no cgroup with a CPU limit: {e}")
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to make a cgroup")
    def test_in_a_container_with_half_a_cpu(self):
        output = self.ends_well(self.demo(*self.limited()))
        self.assertIn("in one process on one core, a container's limit of 0.5 CPUs", output)


class Fails(Demo):
    """Programs that fail, in place of uroce_perf and uroced."""

    def first_line_of(self, perf):
        apps = self.directory / "build" / "apps"
        apps.mkdir(parents=True)
        (apps / "uroce_perf").write_text(f"#!/bin/sh\n{perf}")
        (apps / "uroce_perf").chmod(0o755)
        with (self.directory / "errors").open("w+") as errors:
            done = subprocess.run([sys.executable, "-B", DEMO, apps], stdout=subprocess.DEVNULL, stderr=errors, timeout=300, check=False)
            errors.seek(0)
            lines = errors.read().splitlines()
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(lines)
        log = self.directory / "build" / "failed-run.log"
        self.assertIn(str(log), lines[0])
        self.assertEqual(len(lines), 1, lines)
        return lines[0], log.read_text()

    def test_first_line_has_the_reason(self):
        said, log = self.first_line_of("seq 40; echo 'uroce_perf: the peer at 192.0.2.1 is away; start it' >&2; exit 1")
        self.assertTrue(said.startswith("error: write_bw failed: the peer at 192.0.2.1 is away; start it."), said)
        self.assertIn("\n39\n40\nuroce_perf: the peer", log)

    @unittest.skipUnless(len(harness.CPUS) > 1, "needs two cores")
    def test_reason_is_that_of_the_side_that_failed(self):
        said, _ = self.first_line_of("""case "$*" in *role=client*) echo 'uroce_perf: the peer is gone (it closed the connection)'; sleep 1;;
            *) echo 'uroce_perf: no memory is left; free some';; esac; exit 1""")
        self.assertIn("no memory is left; free some", said)

    def test_program_that_says_nothing(self):
        said, _ = self.first_line_of("exit 3")
        self.assertIn("ended with exit code 3 and said nothing", said)


class Progress(harness.Case):
    def progress(self, *commands, terminal=False):
        """Shows these commands' output by `progress` of config/common.sh; the text shown."""
        text = f". {harness.SOURCE}/config/common.sh; {{ {'; '.join(commands)}; }} | progress"
        if not terminal:
            return subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=120, check=True).stdout
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        with subprocess.Popen(["bash", "-c", text], stdout=theirs) as program:
            os.close(theirs)
            shown = b""
            while program.poll() is None or select.select([ours], [], [], 0)[0]:
                try:
                    shown += os.read(ours, 65536) if select.select([ours], [], [], 0.1)[0] else b""
                except OSError:
                    break
        self.assertEqual(program.returncode, 0)
        return shown.decode().replace("\r\n", "\n")

    def steps(self, function, text):
        command = f". {harness.SOURCE}/config/common.sh; {function}"
        return subprocess.run(["bash", "-c", command], input=text, capture_output=True, text=True, timeout=60, check=True).stdout

    def test_lines_pass_and_a_terminal_is_rewritten(self):
        shown = self.progress("echo '@ 1 of 2 steps'", "echo 'a failure'", "echo '@ 2 of 2 steps'", terminal=True)
        self.assertIn("\r\033[K== 1 of 2 steps, ", shown)
        self.assertIn("\r\033[Ka failure\n", shown)
        self.assertTrue(shown.endswith("\r\033[K"), repr(shown))

    def test_pipe_gets_plain_lines_now_and_then(self):
        shown = self.progress("for i in $(seq 1100); do echo \"@ $i of 1100 steps\"; sleep 0.01; done", "echo 'a failure'")
        lines = shown.splitlines()
        self.assertEqual(lines[-1], "a failure")
        self.assertNotIn("\r", shown)
        self.assertTrue(1 <= len(lines) - 1 < 1100, shown)
        self.assertRegex(lines[0], r"^== \d+ of 1100 steps, \d+ s$")

    def test_errors_of_what_is_shown_remain(self):
        done = subprocess.run(["bash", "-c", f". {harness.SOURCE}/config/common.sh; (echo '[1/2] x'; exit 7) | ninja_steps | progress"],
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 7)

    def test_apt(self):
        status = ("dlstatus:1:0.0000:Retrieving file 2 of 3\npmstatus:a:1.0:Unpacking a (amd64)\npmstatus:a:2.0:Installed a (amd64)\n"
                  "pmstatus:dpkg-exec:3.0:Running dpkg\npmstatus:b:9.0:Installed b (amd64)\n")
        self.assertEqual(self.steps("apt_steps 3", status), "@ downloading package 2 of 3\n"
                         "@ unpacked 1 and installed 0 of 3 packages\n@ unpacked 1 and installed 1 of 3 packages\n"
                         "@ unpacked 1 and installed 2 of 3 packages\n")

    def test_ninja(self):
        self.assertEqual(self.steps("ninja_steps", "ninja: Entering directory `build'\n[3/80] Compiling x\nwarning: y\n"), "@ 3 of 80 steps\n")

    def test_meson(self):
        """With meson itself: the failure is shown when it happens, with its output."""
        (self.directory / "meson.build").write_text(
            "project('p')\nsh = find_program('sh')\ntest('good', sh, args: ['-c', 'true'], priority: 9)\n"
            "test('bad', sh, args: ['-c', 'echo why >&2; exit 1'], priority: 5)\ntest('last', sh, args: ['-c', 'true'])\n")
        subprocess.run(["meson", "setup", "b"], cwd=self.directory, capture_output=True, timeout=60, check=True)
        said = subprocess.run(["meson", "test", "-C", "b", "--num-processes", "1", "--print-errorlogs"], cwd=self.directory,
                              capture_output=True, text=True, timeout=60, check=False).stdout
        lines = self.steps("meson_steps", said).splitlines()
        shown = [line for line in lines if re.match(r"@|.*(bad|why)", line)]
        self.assertEqual(shown[0], "@ 1 of 3 suites, 2 to go, 0 failed")
        self.assertRegex(shown[1], r"bad +FAIL")
        self.assertEqual(shown[2], "@ 2 of 3 suites, 1 to go, 1 failed")
        self.assertIn("why", "\n".join(lines[:lines.index("@ 3 of 3 suites, 0 to go, 1 failed")]))


@unittest.skipUnless(os.environ.get("UROCE_BARE_DEMO"), "takes ten minutes; UROCE_BARE_DEMO=1 asks for it")
class Bare(Demo):
    """A fresh clone on Debian's smallest set of packages."""

    def test_whole_demo(self):
        if missing := bare_debian.may_install():
            self.skipTest(missing)
        debian = BareDebian(self.directory)
        bare_debian.run("git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", harness.SOURCE, debian.root / "uroce")
        program = self.start(debian.command("cd /uroce && exec config/demo.sh"), env=debian.environment())
        output = self.ends_well(program, 3600)
        print("\n".join("# " + line for line in output.splitlines()), flush=True)
        self.assertRegex(output, r"\n== unpacked \d+ and installed \d+ of \d+ packages, \d+ s\n")
        self.assertRegex(output, r"\n== \d+ of \d+ steps, \d+ s\n")


if __name__ == "__main__":
    harness.main()
