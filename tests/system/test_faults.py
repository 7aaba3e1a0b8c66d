#!/usr/bin/env python3
"""Fault rules of `uroced --faults` and `uroce fault`: what each does to a verbs program that verifies every byte."""

import os
import re

import harness
import verbs
from harness import BUILD

UROCE = BUILD / "apps" / "uroce" / "uroce"
VERIFIER = BUILD / "tests" / "system" / "clients" / "client_verifier"
SUCCESS = "sent {0} received {0} wrong 0 gaps 0"
RETRY_EXCEEDED = 12


class Case(verbs.Case):
    def uroce(self, *words, code=0):
        return self.finish(self.start([UROCE, *words, "--socket", self.socket]), 30, code)

    def add(self, *words):
        self.uroce("fault", "add", *words)

    def rules(self):
        return harness.loads(self.uroce("fault", "list", "--json"))

    def hits(self):
        return [rule["hits"] for rule in self.rules()]

    def verifier(self, *options, devices=("uroce0", "uroce1")):
        return self.start(self.words(VERIFIER, *devices, *options), env=self.env)

    def verify(self, *options, **kw):
        """The last line of a verifier's output, and what it said before."""
        *before, last = self.finish(self.verifier(*options, **kw), 60).splitlines()
        return last, before

    def succeeds(self, *options, messages=20, **kw):
        self.assertEqual(self.verify("--messages", messages, *options, **kw)[0], SUCCESS.format(messages))


class OfAFile(Case):
    def start_daemon(self):
        file = self.directory / "faults"
        file.write_text("# The third message is lost once.\ndrop rx opcode=send_only nth=3 seed=9\n")
        self.daemon_args = ("--faults", file)
        return super().start_daemon()

    def test_a_chosen_packet_is_lost_and_sent_again(self):
        self.succeeds()
        self.assertEqual(self.counter("retransmitted_packets"), 1)
        self.assertEqual(self.counter("port_faults_injected"), 1)
        rule, = self.rules()
        self.assertEqual((rule["hits"], rule["chosen"], rule["seed"]), (1, 21, 9))
        self.daemon.wait_for("fault rule 1 with seed 9: drop rx opcode=send_only nth=3", 30)
        self.daemon.wait_for("fault rule 1 (drop rx opcode=send_only nth=3 seed=9): 1 injected, 1 in all", 30)

    def test_a_wrong_file_names_line_word_and_words(self):
        file = self.directory / "wrong"
        file.write_text("drop\n\ndrop rx nht=3\n")
        for words in (["--demo"], ["--set", "engines.faults=" + str(file), "--demo"]):
            faults = ["--faults", file] if len(words) == 1 else []
            daemon = self.start([verbs.UROCED, *words, "--socket", self.directory / "other.sock", *faults])
            self.assertEqual(daemon.wait(30), 2, daemon)
            self.assertIn(f"{file}:3: 'nht=3': behind the action may stand rx, tx, both, device=, qpn=", daemon.output)
        missing = self.start([verbs.UROCED, "--demo", "--socket", self.directory / "other.sock", "--faults", "/nowhere"])
        self.assertEqual(missing.wait(30), 2, missing)
        self.assertIn("cannot read fault rules from /nowhere", missing.output)


if __name__ == "__main__":
    harness.main()
