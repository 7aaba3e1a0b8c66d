#!/usr/bin/env python3
"""Tests of real projects under `uroce-run --ci`, with and without faults: config/ci.md names the commands."""

import re

import harness
import verbs
from verbs import RUN

# ACKs are not lost: the last one's program may be gone before the retry.
FAULTS = {
    "none": "",
    "lost": "drop opcode=send* probability=0.02 seed=1\ndrop opcode=read* probability=0.02 seed=2\n"
            "answer rnr rx opcode=send* every=50\nanswer psn opcode=send* every=70\n"
            "reorder 3 probability=0.02 seed=3\nduplicate every=31\ncorrupt payload probability=0.01 seed=4",
    "late": "delay 1ms probability=0.02 seed=2\nhold 100us every=3\nshuffle 4 every=5 seed=5\nlate_event 1ms every=2",
}
# Starts a server, and a client once somebody listens.
BOTH = """{0} {2} & SERVER=$!
until grep -q ":$(printf %04X $PORT) .* 0A " /proc/net/tcp /proc/net/tcp6; do kill -0 $SERVER || exit; sleep 0.02; done
{0} {1} && wait $SERVER"""


class Projects(harness.Case):
    need = verbs.Case.need
    needs_netns = verbs.Case.needs_netns

    def passes(self, script, *options, **env):
        """The command's output under each set of faults. Nothing is left, refused or misused."""
        for name, rules in FAULTS.items():
            with self.subTest(faults=name):
                file = self.directory / name
                file.write_text(rules)
                program = self.start([RUN, "--ci", *options, "--fail-on", "left,troubles,misuse", "--faults", file, "bash", "-c", script],
                                     env={"TMPDIR": str(self.directory), "PORT": str(harness.free_port()), **env})
                said = self.finish(program, 60)
                self.assertIn("no program left objects or had trouble", said)
                self.assertGreaterEqual(len(re.findall(r"\d+ work requests validated", said)), 2, said)
                yield said

    def ucx(self, *test, **env):
        """UCX resends datagrams itself, by which RC connects, too. It takes a buffer back once the peer has answered, before the
        completion."""
        self.need("ucx_perftest")
        asked = self.start(["ucx_perftest", "-h"])
        asked.wait(30)
        alone = "-P 0 " if "disable/enable MPI mode" in asked.output else ""
        command = f"ucx_perftest {alone}-w 5 -n 50 -p $PORT {' '.join(test)}"
        for said in self.passes(BOTH.format(command, "127.0.0.1", ""), UROCE_VALIDATE="1,-buffer-changed", **env):
            self.assertRegex(said, r"Final: +50 ")

    def test_ucx(self):
        self.ucx("-t", "tag_bw", "-s", "100000", UCX_TLS="rc,self")

    def test_ucx_sleeps(self):
        self.ucx("-t", "tag_lat", "-E", "sleep", UCX_TLS="rc,self")

    def test_ucx_over_datagrams(self):
        self.ucx("-t", "tag_bw", "-s", "8192", UCX_TLS="ud,self")

    def test_libfabric(self):
        self.need("fi_pingpong")
        self.needs_netns()
        script = BOTH.format("fi_pingpong -I 10 -c -p verbs -e msg", "-P $PORT 10.117.0.1", "-B $PORT")
        for said in self.passes(script, "--netns"):
            self.assertEqual(len(re.findall(r"(?m)^4k +10 +=10", said)), 2, said)


if __name__ == "__main__":
    harness.main()
