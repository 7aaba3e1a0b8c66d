#!/usr/bin/env python3
"""Recordings of `uroced --record`: after traffic that every byte of is verified, after kill -ABRT and -9, after faults."""

import os
import pathlib
import random
import re
import shutil
import signal
import struct
import sys
import time
import unittest

import harness
import verbs
from harness import BUILD

UROCE = BUILD / "apps" / "uroce" / "uroce"
UROCED = verbs.UROCED
HEAD = 80 + 32  # bytes of record::FileHead and of the first part's head
PACKET_SCRIPT = BUILD / "tests" / "script" / "packet_script"
CLIENTS = BUILD / "tests" / "system" / "clients"
VERIFIER = CLIENTS / "client_verifier"


def pcapng_blocks(data):
    """The kind and the bytes of each block."""
    while data:
        kind, size = (int.from_bytes(data[at:at + 4], "little") for at in (0, 4))
        yield kind, data[8:size - 4]
        data = data[size:]


class Case(verbs.Case):
    daemon_args = ("--set", "engines.record_mib=32")

    def start_daemon(self):
        self.recordings = self.directory / "recordings"
        self.recordings.mkdir(exist_ok=True)
        if "--record" not in self.daemon_args:
            self.daemon_args = ("--record", self.recordings, *self.daemon_args)
        return super().start_daemon()

    def files(self):
        found = sorted(file for file in self.recordings.iterdir() if ".qp-" not in file.name)
        self.assertEqual(len(found), 2, found)
        return found

    def replay(self, file, *options, code=0):
        return self.finish(self.start([UROCE, "replay", file, *options]), 120, code)

    def dump(self, *words):
        return self.finish(self.start([UROCE, "record", "dump", *words]), 60)

    def becomes_a_script(self, file, qpn):
        """The queue pair's packet script, which passes."""
        script = self.directory / "script.txt"
        said = self.replay(file, "--qp", qpn, "--script", script)
        # A frame with a corrupted header may be no packet, and is dropped.
        left_out = {line for line in said.splitlines() if line.startswith("left out")}
        self.assertLessEqual(left_out, {"left out: received frames that are no packets, of all queue pairs"})
        passed = self.finish(self.start([PACKET_SCRIPT, script]), 120)
        self.assertEqual(passed.splitlines(), ["1 scripts, 0 failed"] * 2)
        return script.read_text()

    def replays(self):
        """Each recording does again what it did."""
        for file in self.files():
            said = harness.loads(self.replay(file, "--json"))
            self.assertIsNone(said["divergence"])
            self.assertGreater(said["frames_in"] + said["frames_out"], 0)
            self.assertIn("bit-exact", self.replay(file))
            yield said

    def verifier(self, *options):
        return self.start(self.words(VERIFIER, "uroce0", "uroce1", *options), env=self.env)

    def die_by(self, number, least=1 << 20):
        """The daemon ends by this signal in the middle of traffic, when each engine has recorded so many bytes."""
        again = f"while {VERIFIER} uroce0 uroce1 --messages 2000; do :; done"
        program = self.start(self.words("bash", "-c", again), env=self.env)
        limit = time.monotonic() + 60 * harness.SLOW
        while any(self.written(file) < least for file in self.files()):
            self.assertIsNone(program.process.poll(), program)
            self.assertLess(time.monotonic(), limit, "the recordings do not grow")
            time.sleep(0.02)
        os.kill(self.daemon.process.pid, number)
        self.daemon.wait(30)
        self.daemon = None
        self.kill_group(program)

    @staticmethod
    def written(file):
        """Bytes of the parts of the file that were written, roughly: the file's head has their size and number, and each its number."""
        data = file.read_bytes()
        size, parts = struct.unpack_from("<QI", data, 24)
        number, used = max(struct.unpack_from("<QQ", data, 80 + part * size) for part in range(parts))
        return (number - 1) * size + used


class Full(Case):
    daemon_args = ("--set", "engines.record_mib=1")

    def test_a_state_that_is_too_large_is_told(self):
        self.finish(self.start([CLIENTS / "client_many_qps", "2000"], env=self.env), 60)
        self.daemon.wait_for("is recorded no more: its state takes over half of the 1 MiB of", 20)
        self.assertLessEqual(self.daemon.output.count("engine 0 of uroce0 is recorded no more"), 1)
        self.finish(self.verifier("--messages", "20"), 60)


class Recordings(Case):
    def test_traffic_is_the_same_again(self):
        self.finish(self.verifier("--messages", "300"), 60)
        completions = sum(said["completions"] for said in self.replays())
        self.assertGreaterEqual(completions, 600)

    def test_several_engines_of_a_device(self):
        for test in ("write_bw", "send_bw", "read_bw"):
            folder = self.directory / test
            folder.mkdir()
            core = harness.CPUS[0]
            self.run_perf(test, ["--lcores", f"(0,1,2)@{core}", *harness.eal()[2:]], "--back-to-back", "--whole-frames", "--verify",
                          *harness.IDLE, "-q", "4", "-s", "4096", "-n", "500", "--record", folder)
            files = sorted(folder.iterdir())
            self.assertEqual([file.name.split(".")[:2] for file in files], [[f"uroce{i}", str(j)] for i in (0, 1) for j in (0, 1)])
            for file in files:
                said = harness.loads(self.replay(file, "--json"))
                self.assertIsNone(said["divergence"])
                self.assertGreaterEqual(said["frames_out"], 200)

    def test_a_recording_as_text_and_as_a_capture(self):
        program = self.verifier("--messages", "60")
        self.finish(program, 60)
        file = self.files()[0]
        said = harness.loads(self.replay(file, "--json"))
        lines = harness.loads(self.dump(file, "--json"))
        self.assertEqual(lines[0]["kind"], "engine")
        packets = [line for line in lines if line["packet"] is not None]
        self.assertEqual([line["packet"] for line in packets], list(range(1, said["frames_in"] + said["frames_out"] + 1)))
        kinds = {line["kind"] for line in lines}
        self.assertLessEqual({"attach", "modify", "sends", "recvs", "doorbell", "poll", "sent", "completion", "end"}, kinds)
        self.assertEqual(sum(line["kind"] == "completion" for line in lines), said["completions"])
        self.assertEqual(len(self.dump(file).splitlines()), len(lines))
        qpn = re.search(r"qps (0x[0-9a-f]+)", program.output)[1]
        own = self.dump(file, "--qp", qpn)
        self.assertIn(f" attach qp={qpn} RC ", own)
        shown = [line.split()[1] for line in own.splitlines() if re.search(r" [<>] ", line)]
        replayed = [line.split()[0] for line in self.replay(file, "--qp", qpn).splitlines() if re.search(r" [<>] ", line)]
        self.assertEqual(shown, replayed)
        capture = self.directory / "out.pcapng"
        self.dump("--pcap", capture, file)
        self.assertEqual(sum(kind == 6 for kind, _ in pcapng_blocks(capture.read_bytes())), len(packets))

    def test_a_changed_recording_ends_a_replay_in_order(self):
        self.finish(self.verifier("--messages", "20"), 60)
        data = self.files()[0].read_bytes()
        used = HEAD + int.from_bytes(data[HEAD - 24:HEAD - 16], "little")
        chance = random.Random(1)
        said = set()
        for number in range(60):
            changed = bytearray(data)
            for _ in range(chance.randrange(1, 9)):
                # Most of what control says stands at the beginning.
                changed[chance.randrange(HEAD, chance.choice((2000, used)))] = chance.randrange(256)
            wrong = self.directory / "changed"
            wrong.write_bytes(changed)
            for command in (("replay", wrong), ("record", "dump", wrong)):
                program = self.start([UROCE, *command])
                self.assertIn(program.wait(60), (0, 1), (number, program))
                said.update(word for word in ("has been changed", "the replay differs", "bit-exact") if word in program.output)
        self.assertEqual(len(said), 3, said)

    def test_queue_pairs_become_packet_scripts(self):
        program = self.verifier("--messages", "100")
        self.finish(program, 60)
        for file, qpn in zip(self.files(), re.search(r"qps (0x[0-9a-f]+) (0x[0-9a-f]+)", program.output).groups()):
            text = self.becomes_a_script(file, qpn)
            self.assertIn(" RC SEND_ONLY ", text)
        refused = self.replay(self.files()[0], "--qp", "0x1", "--script", "-", code=1)
        self.assertIn("queue pair 0x1 has no packet script: only RC and UC queue pairs have one", refused)

    def test_after_an_abort_under_traffic(self):
        self.die_by(signal.SIGABRT)
        for said in self.replays():
            self.assertGreater(said["completions"], 0)
        qpn = re.findall(r" attach qp=(0x[0-9a-f]+) RC ", self.dump(self.files()[0]))[-1]
        self.becomes_a_script(self.files()[0], qpn)

    def test_after_a_kill_under_traffic(self):
        self.die_by(signal.SIGKILL)
        list(self.replays())

    def test_an_overrun_of_a_completion_queue(self):
        """A fault writes the queue anew, which is recorded on."""
        begin = self.directory / "begin"
        program = self.verifier("--begin", begin, "--patience", "500")
        program.wait_for("qps", 30)
        self.finish(self.start([UROCE, "--socket", self.socket, "fault", "add", "raise", "cq_err", "device=uroce0"]), 30)
        begin.touch()
        self.finish(program, 60)
        list(self.replays())

    def test_the_next_daemon_tells_of_a_death(self):
        self.die_by(signal.SIGABRT)
        dead = self.files()
        self.daemon = self.start_daemon()
        for file in dead:
            self.daemon.wait_for(f"did last: uroce replay {file}", 30)
            self.replay(file)
        self.daemon.process.terminate()
        self.finish(self.daemon, 30)
        self.daemon = self.start_daemon()
        self.assertNotIn("uroce replay", self.daemon.output)

    def test_other_files_are_refused(self):
        file = self.files()[0]
        data = file.read_bytes()
        for name, bad, why in (("empty", b"", "it has 0 bytes"), ("other", b"x" * 4096, "its first bytes are others"),
                               ("build", data[:16] + bytes(8) + data[24:], "another version has written it")):
            wrong = self.directory / name
            wrong.write_bytes(bad)
            self.assertIn(why, self.replay(wrong, code=1))


class InARing(Case):
    """The memory is full several times."""

    daemon_args = ("--set", "engines.record_mib=1")

    def test_after_an_abort(self):
        self.die_by(signal.SIGABRT, 5 << 20)
        for said in self.replays():
            self.assertGreater(said["keyframes"], 0)
            self.assertFalse(said["full"])

    def test_after_a_kill(self):
        self.die_by(signal.SIGKILL, 5 << 20)
        list(self.replays())

    def test_while_it_runs(self):
        program = self.verifier("--messages", "20000")
        while program.process.poll() is None:
            for file in self.files():
                self.assertIsNone(harness.loads(self.replay(file, "--json"))["divergence"])
        self.finish(program, 60)


class WithFaults(Case):
    """A fault ends a queue pair: the recording shows how."""

    def start_daemon(self):
        file = self.directory / "faults"
        file.write_text("drop rx opcode=send_only nth=40-100000\n")
        self.daemon_args = (*self.daemon_args, "--faults", file)
        return super().start_daemon()

    def test_the_recording_of_the_end_is_kept(self):
        program = self.verifier("--messages", "100")
        program.wait(60)
        qpn = re.search(r"qps (0x[0-9a-f]+)", program.output)[1]
        told = f"the recording of how QP {qpn} of uroce0 ended is kept; to replay it: uroce replay "
        self.daemon.wait_for(f" --qp {qpn}", 30)
        self.assertIn(told, self.daemon.output)
        file = self.daemon.output.split(told)[1].split()[0]
        self.assertRegex(file, rf"uroce0\.0\.\d+\.1\.qp-{qpn}-retry_exceeded\.uroce$")
        said = self.replay(file, "--qp", qpn)
        self.assertIn("bit-exact", said)
        self.assertIn(" psn=39 ", said)

    def test_the_end_of_a_queue_pair_is_replayed(self):
        program = self.verifier("--messages", "100")
        program.wait(60)
        self.assertIn("sender status 12", program.output)  # retry exceeded
        list(self.replays())
        qpn = re.search(r"qps (0x[0-9a-f]+)", program.output)[1]
        sent = [line for line in self.replay(self.files()[0], "--qp", qpn).splitlines() if "> RC SEND_ONLY" in line]
        self.assertGreaterEqual(len(sent), 39 + 8)  # seven retries
        self.assertTrue(all(" psn=39 " in line for line in sent[-4:]), sent[-4:])
        number = sent[-1].split()[0]
        stopped = self.replay(self.files()[0], "--qp", qpn, "--stop-at", number)
        self.assertIn(f"before: QP {qpn} RTS, peer", stopped)
        self.assertIn(f"after: QP {qpn} RTS, peer", stopped)
        self.assertIn("status=retry_exceeded", self.becomes_a_script(self.files()[0], qpn))
        by_psn = self.replay(self.files()[0], "--qp", qpn, "--stop-at", "psn=0x27")
        self.assertIn(" > RC SEND_ONLY", by_psn)
        self.assertIn(f"before: QP {qpn} RTS, peer", by_psn)
        self.assertIn("PSN unacknowledged", by_psn)
        self.assertIn("never came to the packet", self.replay(self.files()[0], "--stop-at", "100000000", code=1))
        self.assertIn("PSN unacknowledged 39, next 40, sent 40", stopped.splitlines()[-3])


# Rules, and options of the verifier: which fault it is to meet, and how its queue pairs send.
PROVOKED = (
    ("drop rx opcode=send_only nth=20-100000 device=uroce1", ()),
    ("drop rx opcode=ack,sack nth=20-100000", ()),
    ("drop both probability=0.1 seed=1", ("--retries", "2")),
    ("drop rx opcode=hello", ()),
    ("drop rx every=7", ("--bytes", "5000")),
    ("drop tx every=5", ("--uc",)),
    ("delay 2ms rx every=10", ()),
    ("delay 40ms tx opcode=ack every=20", ("--retries", "1")),
    ("duplicate rx every=3", ("--bytes", "3000")),
    ("duplicate tx", ("--uc",)),
    ("reorder rx every=4", ("--bytes", "9000")),
    ("reorder 3 tx every=6", ("--window", "16")),
    ("corrupt icrc rx every=9", ()),
    ("corrupt header rx every=11 seed=3", ()),
    ("corrupt payload icrc=right rx every=10", ()),
    ("mark ecn rx", ()),
    ("throttle 20Mbit", ("--bytes", "4000")),
    ("answer rnr rx opcode=send* nth=5-30 device=uroce1", ("--rnr", "3")),
    ("answer rnr rx opcode=send* nth=5-6 device=uroce1", ()),
    ("answer psn rx opcode=send* nth=9 device=uroce1", ()),
    ("answer invalid rx opcode=send* nth=7 device=uroce1", ()),
    ("answer access rx opcode=send* nth=8 device=uroce1", ()),
    ("answer operational rx opcode=send* nth=6 device=uroce1", ()),
    ("break rx opcode=send* nth=12", ()),
    ("stall 30ms rx opcode=send* nth=10", ()),
    ("hold 3ms", ()),
    ("batch 4", ("--window", "8")),
    ("shuffle 3", ("--window", "8")),
)


class Provoked(Case):
    def start_daemon(self):
        return None

    def setUp(self):
        super().setUp()
        self.said, self.scripts, self.failed = [], 0, 0

    def run_with(self, number, rule, options):
        """The traffic under a rule, a daemon's whole life: both engines do it again, and so do packet scripts."""
        self.recordings = self.directory / f"recordings-{number}"
        self.recordings.mkdir()
        faults = self.directory / "faults"
        faults.write_text(rule + "\n")
        daemon = self.start([UROCED, "--demo", "--socket", self.socket, "--record", self.recordings, "--faults", faults,
                             *self.daemon_args])
        daemon.wait_for("serving uroce0", 30)
        program = self.verifier("--messages", "60", "--patience", "300", *options)
        program.wait(60)
        self.failed += "sent 60 received 60 wrong 0" not in program.output
        daemon.process.terminate()
        self.finish(daemon, 30)
        self.said += self.replays()
        for file in self.files():
            for qpn in re.findall(r" attach qp=(0x[0-9a-f]{2,}) [RU]C ", self.dump(file)):
                self.becomes_a_script(file, qpn)
                self.scripts += 1

    def test_failures_are_the_same_again(self):
        for number, (rule, options) in enumerate(PROVOKED):
            with self.subTest(rule):
                self.run_with(number, rule, options)
        self.assertGreaterEqual(len(self.said), 50)
        self.assertGreaterEqual(self.failed, 8)
        print(f"# {len(self.said)} recordings of {self.failed} failing and {len(PROVOKED) - self.failed} passing runs replayed, "
              f"{self.scripts} packet scripts", flush=True)


FAILING = """
import sys
sys.path.insert(0, sys.argv.pop())
import harness, verbs
class Fails(verbs.Case):
    def test_it(self):
        self.fail("on purpose")
harness.main()
"""


class Kept(harness.Case):
    def test_a_failed_test_leaves_its_recordings(self):
        file = self.directory / f"test_failing_{os.getpid()}.py"
        file.write_text(FAILING)
        kept = BUILD / "recordings" / f"{file.stem}.Fails.test_it"
        self.addCleanup(shutil.rmtree, kept, ignore_errors=True)
        here = pathlib.Path(harness.__file__).parent
        for wanted in ("1", ""):
            env = {"UROCE_TEST_RECORD": wanted, "UROCE_BUILD": str(BUILD)}
            said = self.finish(self.start([sys.executable, file, here], env=env), 60, 1)
            self.assertIn("AssertionError: on purpose", said)
            self.assertEqual(f"Its recordings are in {kept}" in said, wanted == "1", said)
        files = sorted(kept.iterdir())
        self.assertEqual([name.name.split(".")[0] for name in files], ["uroce0", "uroce1"])
        for one in files:
            self.assertIn("bit-exact", self.finish(self.start([UROCE, "replay", one]), 60))


if __name__ == "__main__":
    harness.main()
