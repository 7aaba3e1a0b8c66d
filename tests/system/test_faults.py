#!/usr/bin/env python3
"""Fault rules of `uroced --faults` and `uroce fault`: what each does to a verbs program that verifies every byte."""

import os
import re
import time
import unittest

import harness
import preload
import verbs
import veth
from harness import BUILD, IDLE, eal

UROCE = BUILD / "apps" / "uroce" / "uroce"
EVENTS = BUILD / "tests" / "system" / "clients" / "client_events"
COMPLETIONS = BUILD / "tests" / "system" / "clients" / "client_completions"
GIDS = BUILD / "tests" / "system" / "clients" / "client_gids"
MAKER = BUILD / "tests" / "system" / "clients" / "client_maker"
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

    def test_answers_that_the_sender_survives(self):
        for answer, counter in (("rnr", "rnr_naks_received"), ("psn", "retransmitted_packets")):
            for way, devices in (("rx", ("uroce0", "uroce1")), ("tx", ("uroce0", "uroce1")), ("both", ("uroce0", "uroce0"))):
                with self.subTest(answer, way=way):
                    grown = self.grown(counter)
                    self.add("answer", answer, way, "opcode=send_only", "nth=5-6")
                    self.succeeds(devices=devices)
                    self.assertEqual(self.hits(), [2])
                    self.assertGreaterEqual(grown()[0], 2)
                    self.uroce("fault", "clear")

    def test_answers_beside_lost_packets(self):
        """A NAK acknowledges all packets before its own (IBTA vol. 1, 9.7.5.2), and some have not arrived."""
        lost = (("drop", "opcode=send_only", "probability=0.05", "seed=1"), ("drop", "opcode=ack", "probability=0.05", "seed=2"),
                ("corrupt", "header", "opcode=send_only", "probability=0.05", "seed=3"))
        for devices in (("uroce0", "uroce1"), ("uroce0", "uroce0")):
            for way in ("rx", "tx"):
                with self.subTest(devices=devices, way=way):
                    for rule in lost:
                        self.add(*rule)
                    self.add("answer", "rnr", way, "opcode=send_only", "every=7")
                    self.add("answer", "psn", way, "opcode=send_only", "every=11")
                    self.succeeds("--window", 16, messages=400, devices=devices)
                    self.assertTrue(all(self.hits()[-2:]), self.hits())
                    self.uroce("fault", "clear")

    def test_answers_that_end_the_sender(self):
        for answer, status in (("invalid", 9), ("access", 10), ("operational", 11)):
            for way in ("rx", "tx"):
                with self.subTest(answer, way=way):
                    self.add("answer", answer, way, "opcode=send_only", "nth=5")
                    last, statuses = self.verify()
                    self.assertIn(f"sender status {status}", statuses)
                    self.assertTrue(last.startswith("sent 4 received 4 wrong 0"), last)
                    self.uroce("fault", "clear")

    def test_no_receive_is_ready_for_too_long(self):
        self.add("answer", "rnr", "rx", "opcode=send_only")
        last, statuses = self.verify("--rnr", 2)
        self.assertIn("sender status 13", statuses)
        self.assertEqual(self.hits(), [3])

    def test_a_queue_pair_ends_at_the_nth_request(self):
        for way in ("rx", "tx"):
            with self.subTest(way):
                self.add("break", way, "opcode=send_only", "nth=5")
                self.assertEqual(self.verify()[0], "sent 4 received 4 wrong 0 gaps 0")
                self.assertEqual(self.hits(), [1])
                self.uroce("fault", "clear")

    def test_an_engine_stands_still(self):
        self.add("stall", "400ms", "rx", "opcode=send_only", "nth=3")
        begin = time.monotonic()
        self.succeeds()
        self.assertGreaterEqual(time.monotonic() - begin, 0.4)

    def test_rules_outside_of_their_time(self):
        self.add("drop", "after=60s")
        self.add("drop", "for=1us")
        self.succeeds()
        self.assertEqual([rule["chosen"] for rule in self.rules()], [0, 0])

    def watch(self, count):
        """A program that tells of events, and the number of its queue pair."""
        program = self.start(self.words(EVENTS, "uroce0", count), env=self.env)
        program.wait_for("qp 0x", 30)
        return program, re.search("qp (0x[0-9a-f]+)", program.output)[1]

    def told(self, program):
        _, *lines = self.finish(program, 60).splitlines()
        return lines

    def test_events_of_objects(self):
        # Numbers of ibv_event_type. An event that tells of an error comes with the error state.
        program, qpn = self.watch(7)
        for event in ("cq_err", "comm_est", "sq_drained", "qp_last_wqe_reached", "srq_err", "srq_limit_reached"):
            self.add("raise", event)
        self.add("raise", "qp_fatal", f"object={int(qpn, 16) ^ 0x40:#x}")
        self.add("raise", "qp_fatal", f"object={qpn}")
        self.assertEqual(self.told(program), ["async 0 cq", "async 4 qp", "async 5 qp", "async 16 qp", "async 14 srq", "async 15 srq",
                                              "async 1 qp", "qp state 6, port state 4"])
        for event, number in (("qp_req_err", 2), ("qp_access_err", 3)):
            program, _ = self.watch(1)
            self.add("raise", event)
            self.assertEqual(self.told(program), [f"async {number} qp", "qp state 6, port state 4"])

    def test_events_of_a_device(self):
        program, _ = self.watch(5)
        self.add("raise", "gid_change", "device=uroce1")
        for event in ("gid_change", "port_err", "port_active", "device_fatal"):
            self.add("raise", event, "device=uroce0")
        self.add("raise", "gid_change", "after=50ms")
        self.assertEqual(self.told(program), ["async 18 port", "async 10 port", "async 9 port", "async 8 port", "async 18 port",
                                              "qp state 1, port state 4"])

    def test_events_of_completions_that_there_are_not(self):
        program, _ = self.watch(3)
        self.add("raise", "completion", "after=10ms", "count=3")
        self.assertEqual(self.told(program), ["completion 0"] * 3 + ["qp state 1, port state 4"])
        self.assertEqual(self.hits(), [3])

    def test_an_overrun_of_a_completion_queue(self):
        """The queue has room, but the next completion finds none, and its queue pair ends (C11-39)."""
        begin = self.directory / "begin"
        program = self.verifier("--begin", begin, "--patience", 500)
        program.wait_for("qps", 30)
        self.add("raise", "cq_err", "device=uroce0")
        begin.touch()
        self.assertIn("sent 0 received 1 wrong 0 gaps 0", self.finish(program, 60))

    def completions(self, qps, messages):
        """Each poll of a program: the milliseconds until it, and the completions that it has found, or "event"."""
        said = self.finish(self.start(self.words(COMPLETIONS, "uroce0", qps, messages), env=self.env), 60)
        lines = [line.split(" ms: ") for line in said.splitlines()]
        return [(int(ms), words.split()) for ms, words in lines]

    def test_completions_come_late(self):
        self.add("hold", "300ms", "nth=3")
        times = [ms for ms, words in self.completions(1, 2) for _ in words if words != ["event"]]
        self.assertEqual(len(times), 4)
        self.assertGreaterEqual(times[2], 300)
        self.assertEqual(self.hits(), [1])
        self.uroce("fault", "clear")
        self.add("hold", "1ms")
        self.succeeds("--window", 4)

    def test_completions_come_together(self):
        self.add("batch", "16")
        (_, words), = [line for line in self.completions(1, 8) if line[1] != ["event"]]
        self.assertEqual(len(words), 16)
        self.assertEqual([word for word in words if word[0] == "s"], [f"s0.{i}" for i in range(8)])
        # No more come: they go on after a while.
        self.succeeds()

    def test_completions_of_work_queues_change_places(self):
        self.add("shuffle", "32", "seed=1")
        (_, words), = [line for line in self.completions(8, 2) if line[1] != ["event"]]
        self.assertEqual(sorted(words), sorted(f"{kind}{qp}.{i}" for kind in "rs" for qp in range(8) for i in range(2)))
        place = words.index
        for queue in (f"{kind}{qp}" for kind in "rs" for qp in range(8)):
            self.assertLess(place(f"{queue}.0"), place(f"{queue}.1"))
        self.assertTrue(any(place(f"s{qp}.1") < place(f"r{qp}.0") for qp in range(8)), words)

    def test_the_event_of_a_completion_comes_late(self):
        self.add("late_event", "300ms")
        (_, words), (ms, event) = self.completions(1, 1)[-2:]
        self.assertEqual((words[-1], event), ("s0.0", ["event"]))
        self.assertGreaterEqual(ms, 300)

    def test_completions_that_wait_come_when_rules_end(self):
        self.add("hold", "60s")
        program = self.start(self.words(COMPLETIONS, "uroce0", 1, 2), env=self.env)
        self.until(lambda: self.hits() == [4])
        self.uroce("fault", "clear")
        self.assertRegex(self.finish(program, 60), r"s0\.1")

    def test_a_link_is_down_for_a_while(self):
        begin = self.directory / "begin"
        # A busy machine may leave one engine without a processor for longer than all retries of 1 ms take.
        sender = self.verifier("--begin", begin, "--patience", 60_000, "--timeout", 18)
        sender.wait_for("qps", 30)
        program, _ = self.watch(1)
        self.add("link_down", "60s", "device=uroce0")
        self.assertEqual(self.told(program), ["async 10 port", "qp state 1, port state 1"])
        begin.touch()
        # Frames wait for a link that comes back.
        self.uroce("fault", "clear")
        self.assertIn(SUCCESS.format(20), self.finish(sender, 60))
        program, _ = self.watch(2)
        # The daemon looks at links every now and then, and a busy machine may leave it without a processor meanwhile.
        self.add("link_down", "2s")
        self.assertEqual(self.told(program), ["async 10 port", "async 9 port", "qp state 1, port state 4"])
        self.succeeds()

    def test_gids_leave_the_table_and_come_back(self):
        """New queue pairs cannot have them. Those that have them keep them, as on a card."""
        begin = self.directory / "begin"
        sender = self.verifier("--begin", begin, "--patience", 60_000)
        sender.wait_for("qps", 30)
        program = self.start(self.words(GIDS, "uroce0", 2), env=self.env)
        program.wait_for("connects\n", 30)
        self.add("gid_gone", "60s", "gid=10.117.0.1")
        program.wait_for("EINVAL", 30)
        begin.touch()
        self.assertIn(SUCCESS.format(20), self.finish(sender, 60))
        self.assertEqual(self.hits(), [1])
        self.uroce("fault", "clear")
        table, without, after = self.finish(program, 60).splitlines()
        self.assertEqual(after, table)
        self.assertEqual(without, table.replace("::ffff:10.117.0.1 connects", "none EINVAL"))
        self.succeeds()

    def test_all_gids_of_a_device_leave_for_a_while(self):
        self.need("rping")
        program = self.start(self.words(GIDS, "uroce1", 2), env=self.env)
        program.wait_for("connects\n", 30)
        self.add("gid_gone", "50ms", "device=uroce1")
        # The table between the two events depends on the program's speed.
        table, _, after = self.finish(program, 60).splitlines()
        self.assertEqual(after, table)
        program = self.start(self.words(GIDS, "uroce1", 1), env=self.env)
        program.wait_for("connects\n", 30)
        self.add("gid_gone", "60s", "device=uroce1")
        self.assertEqual(self.finish(program, 60).splitlines(), [table, "none EINVAL, none EINVAL"])
        self.uroce("fault", "clear")
        self.assertIn("ping data: rdma-ping-0", self.ping())

    def ping(self):
        """A client's output. It connects, sends one ping, and disconnects."""
        port = harness.free_port()
        server, _ = preload.start_server(self, self.words("rping", "-s", "-a", "10.117.0.2", "-C", "1", "-p", port), env=self.env)
        client = self.start(self.words("rping", "-c", "-a", "10.117.0.2", "-C", "1", "-p", port, "-v"),
                            env=self.env | preload.ENVIRONMENT)
        client.wait(120)
        server.kill()
        return client.output

    def test_messages_of_the_connection_manager(self):
        self.need("rping")
        for rule in (["drop", "cm=req"], ["drop", "cm=rep"], ["drop", "cm=rtu"], ["duplicate", "cm=req,rep,rtu"], ["delay", "200ms", "cm=rep"]):
            with self.subTest(rule):
                self.add(*rule, "tx", "count=1")
                self.assertIn("ping data: rdma-ping-0", self.ping())
                self.assertEqual(self.hits(), [1])
                self.uroce("fault", "clear")

    def test_a_connection_is_rejected(self):
        self.need("rping")
        for way in ("rx", "tx"):
            with self.subTest(way):
                self.add("answer", "reject", "reason=10", way)
                self.assertIn("cma event RDMA_CM_EVENT_REJECTED, error 10", self.ping())
                self.uroce("fault", "clear")

    def test_captures_show_what_rules_act_on(self):
        begin, file = self.directory / "begin", self.directory / "frames.pcapng"
        program = self.verifier("--begin", begin)
        program.wait_for("qps", 30)
        receiver = re.search("qps 0x[0-9a-f]+ (0x[0-9a-f]+)", program.output)[1]
        self.add("drop", "rx", "device=uroce1", "opcode=send_only", "nth=3")
        number = self.rules()[0]["rule"]
        trace = self.start([UROCE, "trace", "--qp", receiver, "--device", "uroce1", "--socket", self.socket])
        trace.wait_for("tracing queue pair", 30)
        begin.touch()
        self.assertIn(SUCCESS.format(20), self.finish(program, 60))
        said = self.finish(trace, 30)
        self.assertEqual(len(re.findall(rf"< RC SEND_ONLY .* \(fault rule {number}\)\n", said)), 1, said)
        capture = self.start([UROCE, "capture", "-w", file, "--device", "uroce1", "--count", 45, "--socket", self.socket])
        capture.wait_for("capturing on", 30)
        self.add("duplicate", "rx", "device=uroce1", "opcode=send_only", "every=2")
        number = self.rules()[-1]["rule"]
        self.succeeds(messages=40)
        self.finish(capture, 30)
        self.assertIn(f"fault rule {number}".encode(), file.read_bytes())

    def test_kept_frames_go_on_when_rules_end(self):
        self.add("delay", "60s", "tx", "opcode=uc_send_only", "nth=20")
        program = self.verifier("--uc", "--patience", 60_000)
        self.until(lambda: self.hits() == [1])
        self.uroce("fault", "clear")
        self.assertIn(SUCCESS.format(20), self.finish(program, 60))

    def make(self, *calls):
        """How each of the calls ended."""
        said = self.finish(self.start(self.words(MAKER, "uroce0", *calls), env=self.env), 60)
        return [line.split(" ") for line in said.splitlines() if line != "ready"]

    def test_making_fails(self):
        calls = {"pd": "alloc_pd", "channel": "create_comp_channel", "cq": "create_cq", "srq": "create_srq", "qp": "create_qp",
                 "ah": "create_ah", "mr": "reg_mr", "mw": "alloc_mw", "xrcd": "open_xrcd", "rereg": "rereg_mr", "modify": "modify_qp"}
        # The program makes one of each itself before.
        before = {"pd", "cq", "mr", "qp"}
        for call, name in calls.items():
            with self.subTest(call):
                self.add("fail", f"call={name}", f"nth={3 if call in before else 2}")
                self.assertEqual(self.make(call, call, call), [[call, "ok"], [call, "ENOMEM"], [call, "ok"]])
                self.assertEqual(self.hits(), [1])
                self.uroce("fault", "clear")

    def test_making_fails_with_a_chosen_error_for_a_program(self):
        self.add("fail", "EMFILE", "call=create*", "program=client_maker", "nth=3-4")
        self.add("fail", "EPERM", "program=another")
        self.assertEqual(self.make("cq", "pd", "qp", "cq"), [["cq", "EMFILE"], ["pd", "ok"], ["qp", "EMFILE"], ["cq", "ok"]])
        self.assertEqual(self.hits(), [2, 0])
        self.assertIn("lets it fail: fail EMFILE call=create* program=client_maker nth=3-4", self.uroce("explain"))

    def test_a_call_is_answered_late(self):
        self.add("delay", "1s", "call=create_srq")
        begin = time.monotonic()
        self.assertEqual(self.make("srq"), [["srq", "ok"]])
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        # A program that ends meanwhile is not waited for.
        self.uroce("fault", "clear")
        self.add("delay", "60s", "call=create_srq")
        program = self.start(self.words(MAKER, "uroce0", "srq"), env=self.env)
        self.until(lambda: self.hits() == [1])
        program.process.kill()
        program.wait(30)
        self.until(lambda: "client_maker" not in self.uroce("show", "client"))

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
