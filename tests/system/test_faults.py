#!/usr/bin/env python3
"""Fault rules of `uroced --faults` and `uroce fault`: what each does to a verbs program that verifies every byte."""

import os
import re
import time
import unittest

import harness
import verbs
import veth
from harness import BUILD, IDLE, eal

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


class Live(verbs.SharedCase, Case):
    """Each rule comes and goes while the daemon runs."""

    def setUp(self):
        super().setUp()
        self.uroce("fault", "clear")

    def tearDown(self):
        self.uroce("fault", "clear")
        self.assertEqual(self.rules(), [])
        super().tearDown()

    def grown(self, *names):
        """How much each counter grows in a call."""
        before = [self.counter(name) for name in names]
        return lambda: [self.counter(name) - was for name, was in zip(names, before)]

    def test_rules_are_for_root_and_the_daemons_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        os.chmod(self.socket.parent, 0o711)
        os.chmod(self.socket, 0o666)
        for words in (["add", "drop"], ["list"], ["clear"]):
            program = self.start(["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", UROCE, "--socket", self.socket,
                                  "fault", *words])
            self.assertEqual(program.wait(30), 1, program)
            self.assertIn("fault rules are for root and the daemon's own user, not for user 61234", program.output)
        self.assertEqual(self.rules(), [])

    def test_rules_of_a_file_come_together_or_not_at_all(self):
        file = self.directory / "rules"
        file.write_text("drop nth=1\n# nothing\nlose nth=2\n")
        refused = self.uroce("fault", "add", "--file", file, code=1)
        self.assertIn(f"{file}:3: 'lose': a rule begins with its action: drop, delay", refused)
        self.assertEqual(self.rules(), [])
        file.write_text("drop nth=1000000\ndelay 1ms nth=1000000 seed=4\n")
        shown = self.uroce("fault", "add", "--file", file)
        self.assertRegex(shown, r"(?m)^ *\d+ +0 +0 +0 +4 +delay 1ms nth=1000000 seed=4$")
        first, second = (rule["rule"] for rule in self.rules())
        self.uroce("fault", "clear", str(first))
        self.assertEqual([rule["rule"] for rule in self.rules()], [second])
        self.assertIn(f"there is no fault rule {first}", self.uroce("fault", "clear", str(first), code=1))

    def test_drop_of_what_is_sent(self):
        grown = self.grown("retransmitted_packets", "port_faults_injected")
        self.add("drop", "tx", "opcode=send_only", "nth=5")
        self.succeeds()
        self.assertEqual(grown(), [1, 1])

    def test_drop_within_a_device(self):
        grown = self.grown("retransmitted_packets", "port_faults_injected")
        self.add("drop", "rx", "opcode=send_only", "nth=5-6")
        self.succeeds(devices=("uroce0", "uroce0"))
        self.assertEqual(grown(), [2, 2])

    def test_drop_of_a_queue_pair(self):
        begin = self.directory / "begin"
        program = self.verifier("--begin", begin, "--retries", 1)
        program.wait_for("qps", 30)
        sender, receiver = re.search("qps (0x[0-9a-f]+) (0x[0-9a-f]+)", program.output).groups()
        self.add("drop", f"qpn={int(receiver, 16) ^ 0x100:#x}")
        self.add("drop", "opcode=ack", f"qpn={sender}", "count=1")
        begin.touch()
        self.assertIn(SUCCESS.format(20), self.finish(program, 60))
        self.assertEqual(self.hits(), [0, 1])

    def test_drop_with_a_chance(self):
        grown = self.grown("retransmitted_packets", "port_faults_injected")
        self.add("drop", "rx", "opcode=send_only", "probability=0.1", "seed=3")
        self.succeeds(messages=200)
        lost = self.hits()[0]
        self.assertGreater(lost, 5)
        self.assertEqual(grown(), [lost, lost])

    def test_a_datagram_that_is_lost_stays_lost(self):
        self.add("drop", "rx", "opcode=uc_send_only", "nth=3")
        self.assertEqual(self.verify("--uc")[0], "sent 20 received 19 wrong 0 gaps 1")

    def test_delay(self):
        self.add("delay", "1s", "tx", "opcode=uc_send_only", "nth=1")
        # All others come first.
        self.assertEqual(self.verify("--uc", "--patience", 20_000)[0], "sent 20 received 20 wrong 0 gaps 2")

    def test_delay_beyond_all_retries(self):
        self.add("delay", "2s", "tx", "opcode=send*", "device=uroce0")
        last, statuses = self.verify("--retries", 1)
        self.assertIn(f"sender status {RETRY_EXCEEDED}", statuses)
        self.assertTrue(last.startswith("sent 0 received 0"), last)

    def test_a_duplicate_is_taken_once(self):
        self.add("duplicate", "rx", "opcode=send_only", "every=5")
        self.succeeds()
        self.assertEqual(self.hits(), [4])

    def test_a_duplicate_of_an_unreliable_queue_pair(self):
        self.add("duplicate", "tx", "opcode=uc_send_only", "nth=2")
        # IBTA vol. 1, 9.8.2.2.2: an Only begins a message whatever its PSN. So the receives end one message early.
        self.assertEqual(self.verify("--uc")[0], "sent 20 received 20 wrong 0 gaps 1")

    def test_reorder(self):
        self.add("reorder", "2", "tx", "opcode=send_only", "nth=4")
        self.succeeds("--window", 8)
        self.assertEqual(self.hits(), [1])

    def test_reorder_of_an_unreliable_queue_pair(self):
        self.add("reorder", "2", "tx", "opcode=uc_send_only", "nth=4")
        # 1 2 3 5 6 4 7: three of them do not follow the one before.
        self.assertEqual(self.verify("--uc", "--window", 20)[0], "sent 20 received 20 wrong 0 gaps 3")

    def test_corrupt_payload_with_a_wrong_icrc(self):
        grown = self.grown("drop_icrc", "retransmitted_packets")
        self.add("corrupt", "payload", "tx", "opcode=send_only", "nth=3")
        self.succeeds()
        self.assertEqual(grown(), [1, 1])

    def test_corrupt_payload_with_the_right_icrc(self):
        self.add("corrupt", "payload", "icrc=right", "at=9", "tx", "opcode=send_only", "nth=3")
        self.assertEqual(self.verify()[0], "sent 20 received 20 wrong 1 gaps 0")

    def test_corrupt_payload_within_a_device(self):
        self.add("corrupt", "payload", "icrc=right", "at=9", "opcode=send_only", "nth=3")
        self.assertEqual(self.verify(devices=("uroce1", "uroce1"))[0], "sent 20 received 20 wrong 1 gaps 0")

    def test_corrupt_header(self):
        grown = self.grown("retransmitted_packets")
        self.add("corrupt", "header", "rx", "opcode=send_only", "nth=3")
        self.succeeds()
        self.assertEqual(grown(), [1])

    def test_corrupt_icrc(self):
        grown = self.grown("drop_icrc")
        self.add("corrupt", "icrc", "rx", "opcode=send_only", "nth=2")
        self.succeeds()
        self.assertEqual(grown(), [1])

    def test_mark_ecn(self):
        grown = self.grown("cnps_sent", "cnps_received")
        self.add("mark", "ecn", "tx", "device=uroce0", "opcode=send_only", "nth=3")
        self.succeeds()
        self.assertEqual(grown(), [1, 1])

    def test_throttle(self):
        self.add("throttle", "20Mbit", "tx", "device=uroce0")
        self.succeeds()
        self.assertGreaterEqual(self.hits()[0], 20)
        # A frame takes a quarter of a second, and eight tries end sooner.
        self.uroce("fault", "clear")
        self.add("throttle", "10kbit", "tx", "device=uroce0")
        self.assertIn(f"sender status {RETRY_EXCEEDED}", self.verify()[1])

    def test_partition(self):
        self.add("partition", "peer=10.117.0.2", "device=uroce0")
        last, statuses = self.verify("--retries", 1)
        self.assertEqual(statuses[1:], [f"sender status {RETRY_EXCEEDED}"])
        self.assertTrue(last.startswith("sent 0 received 0"), last)
        self.uroce("fault", "clear", str(self.rules()[0]["rule"]))
        self.succeeds()

    def test_kept_frames_go_on_when_rules_end(self):
        self.add("delay", "60s", "tx", "opcode=uc_send_only", "nth=20")
        program = self.verifier("--uc", "--patience", 60_000)
        self.until(lambda: self.hits() == [1])
        self.uroce("fault", "clear")
        self.assertIn(SUCCESS.format(20), self.finish(program, 60))

    def until(self, true, seconds=30):
        limit = time.monotonic() + seconds * harness.SLOW
        while not true():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)


class OfARun(harness.Case):
    """uroce-run starts the daemon with rules."""

    def setUp(self):
        super().setUp()
        self.file = self.directory / "faults"
        self.env = {"UROCE_SOCKET": str(self.directory / "private.sock")}

    def run_verifier(self, code=0):
        words = [verbs.RUN, "--faults", self.file, VERIFIER, "uroce0", "uroce1"]
        program = self.start(words, env=self.env)
        self.assertEqual(program.wait(60), code, program)
        return program.output

    def test_a_private_daemon_has_the_rules(self):
        self.file.write_text("corrupt payload icrc=right at=9 tx opcode=send_only nth=3 seed=5\n")
        said = self.run_verifier()
        self.assertIn("uroce-run: fault rule 1 with seed 5: corrupt payload icrc=right", said)
        self.assertTrue(said.endswith("sent 20 received 20 wrong 1 gaps 0\n"), said)

    def test_wrong_rules_end_it(self):
        self.file.write_text("drop wx\n")
        said = self.run_verifier(code=1)
        self.assertIn(f"{self.file}:1: 'wx': behind the action may stand rx, tx", said)

    def test_a_daemon_that_is_there_keeps_its_own(self):
        self.file.write_text("drop nth=3\n")
        daemon = self.start([verbs.UROCED, "--demo", "--socket", self.env["UROCE_SOCKET"]])
        daemon.wait_for("serving uroce0", 30)
        said = self.run_verifier(code=1)
        self.assertIn(f"uroce fault add --socket {self.env['UROCE_SOCKET']} --file {self.file}", said)


STORM = """\
drop probability=0.002 seed=1
duplicate every=97
reorder 3 probability=0.005 seed=2
corrupt payload tx probability=0.002 seed=3
corrupt header rx probability=0.002 seed=4
delay 200us probability=0.01 seed=5
mark ecn every=50
throttle 5Gbit tx
"""


class Storm(veth.Case):
    """All at once, in uroce_perf's own stack, which verifies every byte and shows what the rules did."""

    def setUp(self):
        super().setUp()
        self.file = self.directory / "storm"
        self.file.write_text(STORM)

    def one_process(self, test, *args, eal_args=None):
        program = self.start([harness.PERF, test, *(eal_args or eal()), "--", "--back-to-back", "--verify", *IDLE, *harness.PATIENT,
                              "--faults", self.file, *args])
        said = self.finish(program, 120)
        self.assertRegex(said, r"fault rule 1 \(drop probability=0.002 seed=1\): \d+ injected, \d+ in all")

    def test_between_two_devices_of_one_thread(self):
        for test in ("write_bw", "read_bw", "send_bw"):
            self.one_process(test, "-s", "65536", "-n", "300")
        self.one_process("atomic_bw", "-n", "2000")

    def test_between_threads(self):
        self.one_process("write_bw", "-s", "65536", "-n", "300", "-q", "4", eal_args=veth.engines(2))

    def test_over_memif(self):
        socket = self.directory / "memif.sock"
        self.run_pair("send_bw", eal(f"--vdev=net_memif0,role=server,socket={socket}"),
                      eal(f"--vdev=net_memif0,role=client,socket={socket}"),
                      "--verify", *IDLE, "--faults", self.file, "-s", "65536", "-n", "200", seconds=120)

    @unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
    def test_over_an_interface_of_the_kernel(self):
        names = self.spaces(1500)
        for test in ("write_bw", "read_bw", "send_bw"):
            self.pair(names, test, "--faults", self.file, "-s", "65536", "-n", "200")


if __name__ == "__main__":
    harness.main()
