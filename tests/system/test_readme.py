#!/usr/bin/env python3
"""README.md: each of its blocks is run, here or by the test that is named, as it stands in the document."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import harness
import verbs

README = harness.SOURCE / "README.md"
# Blocks that are not run here: why, and the test that takes its lines from the document. None: nothing to run.
ELSEWHERE = {
    ("Try it", 0): ("it builds everything; the test runs the demo, and config/test.sh runs all tests", "test_demo.py"),
    ("Try it", 1): ("the demo's output", "test_demo.py"),
    ("Between two hosts", 0): ("it needs two hosts", "test_two_hosts.py"),
    ("Install it", 0): ("it changes a machine; the test installs on a bare Debian", "test_packages.py"),
    ("How it fits together", 0): ("a drawing", None),
}
PASTED = ("Run unmodified programs", 0)
PASTES = int(os.environ.get("UROCE_PASTES", "3"))
END = "the paste has ended"
# A host of its own: nobody else's /run, TCP ports and interfaces. config/env.sh takes the programs of `build`.
HOST = """mount -t tmpfs tmpfs /run; ip link set lo up; mkdir -p build
[ "$UROCE_BUILD" -ef build ] || mount --bind "$UROCE_BUILD" build; exec bash --norc --noprofile -i"""


def blocks():
    """{(heading, number under it): text} of the fenced blocks."""
    found, heading, block, count = {}, "", None, 0
    for line in README.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if block is not None:
                found[heading, count] = "\n".join(block) + "\n"
                count += 1
            block = [] if block is None else None
        elif block is not None:
            block.append(line)
        elif line.startswith("#"):
            heading, count = line.lstrip("# "), 0
    return found


class Shell:
    """An interactive shell on a terminal, into which text is pasted."""

    def __init__(self, case):
        keyboard, terminal = pty.openpty()
        self.keyboard, self.said = keyboard, ""
        case.addCleanup(os.close, keyboard)
        environment = {**os.environ, "UROCE_BUILD": str(harness.BUILD), "PS1": "$ ", "TERM": "dumb"}
        self.process = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOST],
                                        stdin=terminal, stdout=terminal, stderr=terminal, cwd=harness.SOURCE, env=environment,
                                        start_new_session=True, preexec_fn=self.own_terminal)
        os.close(terminal)
        case.addCleanup(self.process.wait, 30)
        case.addCleanup(self.process.kill)

    @staticmethod
    def own_terminal():
        """Makes the terminal this session's, so that jobs can run in the background of it."""
        os.close(os.open(os.ttyname(0), os.O_RDWR))

    def paste(self, text, seconds):
        """The text that the shell shows until all of it has run."""
        begin = len(self.said)
        # The command's echo must not look like its output.
        os.write(self.keyboard, f"{text}echo the'' paste has ended\n".encode())
        limit = time.monotonic() + seconds * harness.SLOW
        while f"\n{END}" not in self.said[begin:].replace("\r", ""):
            ready, _, _ = select.select([self.keyboard], [], [], 1)
            try:
                got = os.read(self.keyboard, 65536) if ready else None
            except OSError:
                got = b""
            if got == b"" or time.monotonic() > limit:
                raise AssertionError(f"the paste has not ended within {seconds} s, or the shell has:\n{self.said[begin:]}")
            self.said += (got or b"").decode(errors="replace")
        return self.said[begin:].replace("\r", "")


class Readme(harness.Case):
    def test_each_block_is_run(self):
        self.assertEqual(set(blocks()), {*ELSEWHERE, PASTED}, "name the new block here, with the test that runs it")
        for (heading, _), (reason, test) in ELSEWHERE.items():
            with self.subTest(heading, reason=reason):
                if test is not None:
                    text = (pathlib.Path(__file__).parent / test).read_text(encoding="utf-8")
                    self.assertIn("README.md", text, f"{test} does not take the lines from the document")

    def test_the_demo_builds_what_the_readme_runs(self):
        """config/demo.sh names the targets; they are enough for the commands of the document."""
        made = (harness.SOURCE / "config" / "demo.sh").read_text(encoding="utf-8")
        ours = {word for key in (PASTED, ("Between two hosts", 0)) for line in blocks()[key].splitlines()
                for word in re.findall(r"(?:^|; |do |`)(uroce[\w-]*)", line)}
        self.assertLessEqual({"uroced", "uroce", "uroce-run"}, ours)
        for program in ours:
            self.assertRegex(made, rf"/{program}\b")
        for library in ("libibverbs.so.1", "librdmacm.so.1", "liburoce-sysfs.so"):
            self.assertIn(library, made)

    @unittest.skipUnless(os.geteuid() == 0 and harness.may_make_namespaces(), "needs root and network namespaces")
    def test_paste_again_and_again(self):
        for program in ("ib_write_bw", "rping"):
            if not shutil.which(program):
                self.skipTest(f"{program} is missing; config/packages.txt names its package")
        text = blocks()[PASTED]
        shell = Shell(self)
        tries = 0
        done = 0
        while done < PASTES:
            said = shell.paste(text, 120)
            tries += 1
            # perftest could not calibrate the processor's clock, as on a machine that is busy just then.
            if verbs.CLOCK_UNKNOWN in said and tries < 3 * PASTES:
                continue
            done += 1
            self.assertRegex(said, r"\n *65536 +5000 +[\d.]+ ")
            self.assertIn("ping data: rdma-ping-9", said)
            self.assertRegex(said, r"\nuroce0 ")
            for wrong in ("another uroced", "command not found", "No such file", "ambiguous", "no such job"):
                self.assertNotIn(wrong, said)


if __name__ == "__main__":
    harness.main()
