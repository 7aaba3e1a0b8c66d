#!/usr/bin/env python3
"""UROCE_VALIDATE: each misuse of verbs is told with its word, its place and its way out, and real programs have none."""

import re
import shutil
import unittest

import harness
import preload
import verbs
from verbs import RUN

MISUSE = harness.BUILD / "tests" / "system" / "clients" / "client_misuse"


def words_of(said):
    """The words that a validator told."""
    return re.findall(r"\b(?:misuse|note) ([a-z-]+): ", said)


class Misuses(verbs.SharedCase):
    """Each word of `uroce-run --misuses` has a case of client_misuse."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        table = harness.subprocess.run([RUN, "--misuses"], capture_output=True, text=True, check=True).stdout
        cls.table = dict(re.findall(r"^\|`([a-z-]+)`( \(note\))?\|", table, re.MULTILINE))

    def run_client(self, word, code=0, validate="1", before_end=None):
        program = self.start([RUN, "--validate", MISUSE, word, self.directory / "go"],
                             env={**self.env, "UROCE_VALIDATE": validate})
        if before_end is not None:
            program.wait_for(before_end, 30)
            (self.directory / "go").touch()
        return self.finish(program, 60, code)

    def test_each(self):
        self.assertGreaterEqual(len(self.table), 35)
        for word, note in self.table.items():
            with self.subTest(word):
                waits = f"misuse {word}" if word == "events-unacknowledged" else None
                said = self.run_client(word, validate="notes" if note else "1", before_end=waits)
                self.assertEqual(set(words_of(said)), {word}, said)
                self.assertRegex(said, rf"uroce: client_misuse, process \d+: {'note' if note else 'misuse'} {word}: "
                                       r".*; .* \(called from client_misuse\+0x[0-9a-f]+", said)
                self.assertRegex(said, rf"misuses found: {word} \d+\n")
                self.assertIn("done", said)

    def test_none(self):
        said = self.run_client("nothing", validate="notes")
        self.assertEqual(words_of(said), [])
        self.assertRegex(said, r"client_misuse, process \d+: \d+ work requests validated, no misuse")

    def test_notes_are_asked_for(self):
        self.assertEqual(words_of(self.run_client("buffer-repeated")), [])

    def test_allowed(self):
        said = self.run_client("atomic-length", validate="1,-atomic-length")
        self.assertEqual(words_of(said), [])
        self.assertIn("no misuse", said)

    def test_an_unknown_word(self):
        self.assertIn("UROCE_VALIDATE has 'nots', which is no word", self.run_client("list-loop", validate="nots"))

    def test_a_file(self):
        file = self.directory / "found"
        self.assertEqual(words_of(self.run_client("list-loop", validate=f"file:{file}")), [])
        self.assertEqual(words_of(file.read_text()), ["list-loop"])

    def test_off(self):
        for value in ("", "0"):
            program = self.start([RUN, MISUSE, "wr-order"], env={**self.env, "UROCE_VALIDATE": value})
            self.assertNotIn("validated", self.finish(program, 60))


class Ci(harness.Case):
    def ci(self, word, *options, code=0):
        file = self.directory / "report.xml"
        program = self.start([RUN, "--ci", "--junit", file, *options, MISUSE, word], env={"TMPDIR": str(self.directory)})
        return self.finish(program, 60, code), file.read_text()

    def test_misuses_fail(self):
        for options, code in ((("--validate",), 0), (("--fail-on", "misuse"), 1)):
            said, junit = self.ci("list-loop", *options, code=code)
            self.assertRegex(said, r"uroce-run: client_misuse, process \d+: misuse list-loop: ")
            self.assertRegex(said, r"uroce-run: client_misuse, process \d+: \d+ work requests validated, misuses found: list-loop 1")
            self.assertIn(": misuses no verb", junit)
            self.assertEqual('<failure message="misuse list-loop' in junit, code == 1)

    def test_none_fails_nothing(self):
        said, junit = self.ci("nothing", "--fail-on", "misuse")
        self.assertIn("validated, no misuse", said)
        self.assertRegex(junit, r": misuses no verb\"/>")

    def test_it_is_asked_for(self):
        self.assertNotIn("validated", self.ci("nothing")[0])


class Programs(verbs.SharedCase):
    """Programs that do right. config/programs.md has the faults of others."""

    def clean(self, *command, **options):
        self.env = {**self.env, "UROCE_VALIDATE": "1"}
        self.no_misuse(self.pair(command, **options))

    def no_misuse(self, outputs):
        """A side that posts nothing has no last line."""
        said = "".join(outputs)
        self.assertEqual(words_of(said), [], said)
        self.assertIn("validated, no misuse", said)

    def test_perftest(self):
        for name in ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat", "ib_atomic_bw",
                     "ib_atomic_lat"):
            with self.subTest(name):
                self.clean(name, "-x", "0", "-n", "200")

    def test_datagrams_of_perftest(self):
        """ib_send_bw places buffers of 1024 bytes and a GRH of 40 at distances of 1024 bytes."""
        self.env = {**self.env, "UROCE_VALIDATE": "1"}
        server, _ = self.pair(("ib_send_bw", "-x", "0", "-n", "200", "-c", "UD", "-s", "1024"))
        self.assertEqual(words_of(server), ["buffer-overlap"], server)

    def test_pingpong(self):
        for name in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            with self.subTest(name):
                self.clean(name, "-g", "0", "-n", "200")

    def test_ucx(self):
        usage = self.under("ucx_perftest", "-h")
        usage.wait(30)
        command = [RUN, "ucx_perftest", *(("-P", "0") if "disable/enable MPI mode" in usage.output else ()), "-n", "200", "-w", "10"]
        for transports, test in (("rc,self", "tag_bw"), ("rc,self", "ucp_get"), ("rc,self", "ucp_fadd"), ("ud,self", "tag_lat")):
            with self.subTest(transports=transports, test=test):
                env = {**self.env, "UROCE_VALIDATE": "1", "UCX_TLS": transports}
                port = harness.free_port()
                server = self.start([*command, "-t", test, "-p", port], env=env)
                verbs.wait_for_listener(server, port)
                client = self.start([*command, "-t", test, "-p", port, "127.0.0.1"], env=env)
                self.finish_both(server, client)
                self.no_misuse((server.output, client.output))

    def test_rping(self):
        self.need("rping")
        env = {**self.env, "UROCE_VALIDATE": "1"}
        command = [RUN, "rping", "-C", "20", "-V", "-a", "10.117.0.1"]
        server, _ = preload.start_server(self, [*command, "-s"], env=env)
        client = self.start([*command, "-c"], env=env | preload.ENVIRONMENT)
        self.finish_both(server, client)
        self.no_misuse((server.output, client.output))


if __name__ == "__main__":
    harness.main()
