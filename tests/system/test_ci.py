#!/usr/bin/env python3
"""`uroce-run --ci`: devices of the command's own, and at its end what its programs left and what went wrong."""

import os
import pathlib
import re
import shlex
import shutil
import time
import unittest
import xml.etree.ElementTree

import harness
from harness import BUILD
from verbs import RUN

SERVER = "ibv_rc_pingpong -d uroce0 -g 0 -p $PORT"
CLIENT = "ibv_rc_pingpong -d uroce1 -g 0 -p $PORT localhost"
# Ready once it listens: it has made its objects by then.
LISTENS = f"""{SERVER} >/dev/null & SERVER=$!
until grep -q ":$(printf %04X $PORT) .* 0A " /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done"""
CLEAN = f"{LISTENS}; {CLIENT} >/dev/null && wait $SERVER"
LEAVES = f"{LISTENS}; kill -9 $SERVER"
# The devices have no receive queue of that length.
REFUSED = f"{SERVER} -r 10000000 2>/dev/null || true"


@unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibv_rc_pingpong is not installed; config/packages.txt names its package")
class Ci(harness.Case):
    def ci(self, script, *options, code=0):
        """Returns its output, and the cases of its JUnit file by name."""
        file = self.directory / "report.xml"
        program = self.start([RUN, "--ci", "--junit", file, *options, "sh", "-c", script],
                             env={"PORT": str(harness.free_port()), "TMPDIR": str(self.directory)})
        said = self.finish(program, 60, code)
        suite = xml.etree.ElementTree.parse(file).getroot()
        cases = {case.get("name"): case for case in suite}
        self.assertEqual(int(suite.get("tests")), len(cases))
        self.assertEqual(int(suite.get("failures")), sum(case.find("failure") is not None for case in cases.values()))
        return said, cases

    def case(self, cases, end):
        found = [case for name, case in cases.items() if name.endswith(end)]
        self.assertEqual(len(found), 1, list(cases))
        return found[0]

    def test_a_program_that_destroys_all(self):
        said, cases = self.ci(CLEAN, "--fail-on", "left,troubles")
        self.assertIn("no program left objects or had trouble", said)
        self.assertEqual(len(cases), 1)

    def test_a_program_that_leaves_objects(self):
        left = "1 queue pair, 1 completion queue, 1 memory region, 1 protection domain"
        for options, code in (((), 0), (("--fail-on", "troubles"), 0), (("--fail-on", "left"), 1)):
            said, cases = self.ci(LEAVES, *options, code=code)
            self.assertRegex(said, rf"ibv_rc_pingpong, process \d+, left {left}\n")
            self.assertEqual("fails by --fail-on" in said, code == 1)
            case = self.case(cases, ": destroys what it makes")
            self.assertEqual(case.find("failure" if code else "system-out").text, left)
            self.assertEqual(len(self.case(cases, ": has no trouble")), 0)

    def test_a_program_that_is_refused_a_call(self):
        for options, code in (((), 0), (("--fail-on", "left"), 0), (("--fail-on", "left,troubles"), 1)):
            said, cases = self.ci(REFUSED, *options, code=code)
            self.assertRegex(said, r"ibv_rc_pingpong, process \d+: .*refused: .*10000001")
            case = self.case(cases, ": has no trouble")
            self.assertIn("10000001", case.find("failure" if code else "system-out").text)

    @unittest.skipUnless(shutil.which("fi_info") and harness.may_make_namespaces(), "needs fi_info of libfabric-bin, and namespaces")
    def test_a_library_that_tries_out_what_there_is(self):
        """libfabric finds the longest inline data by queue pairs that are refused."""
        said = self.finish(self.start([RUN, "--ci", "--netns", "--fail-on", "left,troubles", "fi_info", "-p", "verbs"],
                                      env={"TMPDIR": str(self.directory)}), 60)
        self.assertIn("provider: verbs", said)
        self.assertIn("no program left objects or had trouble", said)

    def test_the_commands_own_exit_code(self):
        _, cases = self.ci(f"{LEAVES}; exit 7", "--fail-on", "left", code=7)
        self.assertIn("exit code 7", self.case(cases, "; exit 7").find("failure").text)

    def test_a_program_that_outlives_the_command(self):
        """It ends, and its devices. Programs without devices are no concern of uroce's."""
        pids = self.directory / "pids"
        for before, signal in (("", "SIGTERM"), ("trap '' TERM;", "SIGKILL")):
            said, cases = self.ci(f"{before} sleep 1000 & echo $! >{pids}; {LISTENS}; echo $SERVER >>{pids}", "--fail-on", "troubles", code=1)
            sleeper, server = map(int, pids.read_text().split())
            os.kill(sleeper, 9)
            self.assertRaises(ProcessLookupError, os.kill, server, 0)
            trouble = f"still had its devices 2 s after the command's end; {signal} ended it"
            self.assertIn(f"uroce-run: ibv_rc_pingpong, process {server}: {trouble}\n", said)
            self.assertEqual(self.case(cases, f"process {server}: has no trouble").find("failure").text, trouble)

    def test_a_signal_ends_all(self):
        pid = self.directory / "pid"
        program = self.start([RUN, "--ci", "sh", "-c", f"{LISTENS}; echo $SERVER $UROCE_SOCKET >{pid}; wait"],
                             env={"PORT": str(harness.free_port()), "TMPDIR": str(self.directory)})
        self.until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        server, socket = pid.read_text().split()
        program.process.terminate()
        self.assertIn("SIGTERM ended it", self.finish(program, 60, 128 + 15))
        self.assertRaises(ProcessLookupError, os.kill, int(server), 0)
        self.assertFalse(any(socket.encode() in line for line in self.command_lines()))

    def test_orphans_are_reaped(self):
        """A long command may leave many."""
        pid = self.directory / "pid"
        self.ci(f"sh -c 'sleep 0.05 & echo $! >{pid}'; while [ -e /proc/$(cat {pid}) ]; do sleep 0.02; done")

    def test_its_devices_end_with_it(self):
        said, _ = self.ci("echo socket $UROCE_SOCKET")
        socket = pathlib.Path(re.search(r"socket (\S+)", said)[1])
        self.assertTrue(socket.is_relative_to(self.directory))
        self.assertFalse(any(str(socket).encode() in line for line in self.command_lines()), "the daemon goes on")
        self.assertFalse(socket.parent.exists())

    def test_a_long_tmpdir(self):
        """Build tools have one below which no path of a socket fits."""
        folder = self.directory / "/".join(["a-long-name"] * 10)
        folder.mkdir(parents=True)
        said = self.finish(self.start([RUN, "--ci", "sh", "-c", "echo socket $UROCE_SOCKET"], env={"TMPDIR": str(folder)}), 60)
        self.assertIn("socket /tmp/", said)
        self.assertEqual(list(folder.iterdir()), [])

    def test_where_the_report_goes(self):
        """Its folder is made. A report that cannot be written is told before the command runs, and not hours later."""
        env = {"TMPDIR": str(self.directory)}
        report = self.directory / "new" / "folder" / "report.xml"
        self.finish(self.start([RUN, "--ci", "--junit", report, "true"], env=env), 60)
        self.assertIn("<testsuite", report.read_text())
        program = self.start([RUN, "--ci", "--junit", self.directory, "echo", "it ran"], env=env)
        self.assertRegex(self.finish(program, 60, 1), rf"^uroce-run: cannot write {self.directory}: Is a directory; --junit names the file\n$")

    def test_recordings_of_how_queue_pairs_end(self):
        faults = self.directory / "faults"
        faults.write_text("drop rx opcode=send_first nth=101-1000000\n")
        script = f"{LISTENS}; timeout 20 {CLIENT} >/dev/null 2>&1; kill $SERVER; true"
        folder = self.directory / "a folder"
        said, _ = self.ci(script, "--faults", faults, "--record", folder)
        told = re.search(r"how queue pair (0x[0-9a-f]+) ended: uroce replay (.*) --qp \1\n", said)
        file, = shlex.split(told[2])
        self.assertEqual(pathlib.Path(file).parent, folder)
        replayed = self.finish(self.start([BUILD / "apps" / "uroce" / "uroce", "replay", file, "--qp", told[1]]), 60)
        self.assertIn("bit-exact", replayed)
        self.assertIn("SEND_FIRST", replayed)
        said, _ = self.ci(script, "--faults", faults)
        self.assertNotIn("uroce replay ", said)
        self.assertIn("--record DIR keeps recordings of how queue pairs end", said)

    def until(self, true, seconds=30):
        limit = time.monotonic() + seconds * harness.SLOW
        while not true():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)

    @staticmethod
    def command_lines():
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                yield process.read_bytes()
            except OSError:
                pass

    def test_wrong_options(self):
        for options, words in ((("--fail-on", "leaks"), "--fail-on"), (("--junit",), "--junit"),
                               (("--junit", "x", "true"), "are for --ci"), (("--fail-on", "left", "true"), "are for --ci"),
                               (("--record", "x", "true"), "is for --ci"), (("--ci", "--socket", "/tmp/none", "true"), "leave one out")):
            self.assertIn(words, self.finish(self.start([RUN, *options]), 20, 2))


if __name__ == "__main__":
    harness.main()
