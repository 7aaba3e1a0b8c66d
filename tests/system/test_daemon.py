#!/usr/bin/env python3
"""The daemon's own life: its configuration, start, signals and end. Other tests have its clients."""

import json
import os
import pathlib
import re
import signal
import socket
import stat
import time
import unittest

import harness
from harness import BUILD, SOURCE, eal

UROCED = BUILD / "apps" / "uroced" / "uroced"
UP = "serving uroce0"


class Daemon(harness.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.directory / "run" / "uroced.sock"

    def launch(self, *args, eal_args=None, env=None):
        """Running and ready; `args` are the daemon's own."""
        program = self.start([UROCED, *(eal() if eal_args is None else eal_args), "--", *args], env=env)
        program.wait_for(UP, 20)
        return program

    def demo(self, *args, **kw):
        return self.launch("--demo", "--socket", self.socket, *args, **kw)

    def write(self, text):
        path = self.directory / "uroced.toml"
        path.write_text(text)
        return path

    def run_to_end(self, *args, code):
        return self.finish(self.start([UROCED, *args]), 20, code)

    def end(self, program, how=signal.SIGTERM):
        program.process.send_signal(how)
        output = self.finish(program, 20)
        self.assertIn("ended", output)
        return output


class Check(Daemon):
    def test_the_file_as_it_is_installed(self):
        """It names no port. The check says so, and the start, each with its exit code."""
        sample = SOURCE / "config" / "uroced.toml"
        with_port = self.write(sample.read_text() + '\n[[device]]\ninterface = "lo"\n')
        self.assertIn(f"{with_port}: no errors", self.run_to_end("--check", with_port, code=0))
        if "bound to" in self.run_to_end("--check", code=0):
            self.skipTest("EAL takes the card of this machine that is bound to a driver for programs")
        said = rf"{sample} names no port to serve.*--interface \S+, or in the file a table \[\[device\]\] with interface = "
        output = self.run_to_end("--check", sample, code=1)
        self.assertRegex(output, said)
        self.assertNotIn("no errors", output)
        self.assertRegex(self.run_to_end("--config", sample, "--socket", self.socket, code=2), "uroced: " + said)

    def test_what_the_start_refuses(self):
        """Exit code 1 of the check, and 2 of the start, with the same words."""
        path = self.write("[[device]]\n[[device]]\nmtu = 1500\n")
        for words, part in ((("--interface", "lo", "--vlan", "7", "--address", "kernel"), "vlan is 7"),
                            (("--interface", "lo", "--address", "nonsense"), "nonsense"),
                            (("--no-pci", "--vdev=net_null0", "--frobnicate", "--"), "'--frobnicate'")):
            with self.subTest(part):
                self.assertIn(part, self.run_to_end(*words, "--check", code=1))
                self.assertIn(part, self.run_to_end(*words, "--socket", self.socket, code=2))
        self.assertIn("2 ports, but EAL finds 1", self.run_to_end(*eal("--vdev=net_null0"), "--", "--check", path, code=1))

    def test_an_interface_that_is_not_there(self):
        """It may come before the start, which tries again under systemd."""
        path = self.write('[[device]]\ninterface = "eth77"\n')
        self.assertIn("there is no network interface eth77 now", self.run_to_end("--check", path, code=1))
        self.assertIn("eth77", self.run_to_end("--config", path, "--socket", self.socket, code=1))

    def test_cards(self):
        """The state of this machine's cards, and exit code 1 where a card that is named cannot be driven."""
        self.assertRegex(self.run_to_end("--check", code=0), r"card [0-9a-f:.]+: |has no Ethernet card")
        path = self.write('[eal]\narguments = ["-a", "0000:00:1f.7"]\n')
        output = self.run_to_end("--check", path, code=1)
        self.assertIn("no errors", output)
        self.assertIn("there is no PCI device 0000:00:1f.7", output)

    def test_errors_name_place_key_value_and_limit(self):
        path = self.write("[limits]\nmax_qp = 0\n[daemon]\ncolour = 1\n")
        output = self.run_to_end("--check", path, code=1)
        self.assertIn(f"{path}:2:10: limits.max_qp = 0: it must be an integer from 1 to 1048576\n", output)
        self.assertIn(f"{path}:4:1: unknown key daemon.colour", output)
        self.assertIn(f"{path}:2:10: limits.max_qp = 0", self.run_to_end("--config", path, code=2))

    def test_no_file(self):
        self.assertIn("No such file", self.run_to_end("--check", self.directory / "none.toml", code=1))


class CommandLine(Daemon):
    def test_help_and_version(self):
        self.assertIn("uroced --demo", self.run_to_end("--help", code=0))
        self.assertRegex(self.run_to_end("--version", code=0), r"^uroced \d+\.\d+\.\d+\nICRC: (\w+) \(of \1.*table\)\n$")

    def test_what_cannot_be_used(self):
        self.assertIn("--config FILE", self.run_to_end(code=2))
        self.assertIn("before `--`", self.run_to_end("-l", "0", "--demo", code=2))
        self.assertIn("'--nonsense'", self.run_to_end("--nonsense", "--", "--demo", "--socket", self.socket, code=2))

    def test_no_port(self):
        self.assertIn("name no port to serve", self.run_to_end(*eal(), "--", "--socket", self.socket, code=2))

    def test_more_memory_than_there_is(self):
        """EAL's reason, and the way out."""
        output = self.run_to_end("-l", "0", "--no-pci", "--in-memory", "-m", "99999999", "--vdev=net_null0", "--", "--socket",
                                 self.socket, code=1)
        self.assertRegex(output, "Not enough memory available|Cannot get hugepage information")
        self.assertRegex(output, "ask for less with -m|hugeadm --create-mounts")

    @unittest.skipUnless(harness.may_make_namespaces(), "may not make namespaces (needs root)")
    def test_the_loopback_interface(self):
        script = 'ip link set lo up && exec "$@"'
        program = self.start(["unshare", "--net", "sh", "-c", script, "sh", UROCED, "--interface", "lo", "--socket", self.socket])
        program.wait_for("serving uroce0", 20)
        self.assertIn("lo is the loopback interface: it has no address for a device", self.end(program))

    def test_settings_for_ports_that_are_not_there(self):
        path = self.write("[[device]]\n[[device]]\nmtu = 1500\n")
        output = self.run_to_end(*eal("--vdev=net_null0"), "--", "--config", path, "--socket", self.socket, code=2)
        self.assertIn("2 ports, but EAL finds 1", output)


class Life(Daemon):
    def test_demo(self):
        """As on a laptop: no EAL arguments, nothing configured."""
        program = self.start([UROCED, "--demo", "--socket", self.socket])
        program.wait_for("serving uroce0, uroce1 on " + str(self.socket), 20)
        self.assertTrue(stat.S_ISSOCK(self.socket.stat().st_mode))
        self.assertIn("SIGTERM", self.end(program))
        self.assertFalse(self.socket.exists())

    def test_interrupt(self):
        self.assertIn("SIGINT", self.end(self.demo(), signal.SIGINT))

    def test_both_signals_of_timeout_are_one_request(self):
        """timeout(1) passes a signal to the daemon, and to the group that both are in."""
        for eal_args in ([], [*eal(lcores=harness.CPUS[0]), "--"]):
            program = self.start(["timeout", "300", UROCED, *eal_args, "--demo", "--socket", self.socket])
            program.wait_for(UP, 20)
            self.assertNotIn("second signal", self.end(program))

    def test_engines_on_the_main_thread(self):
        self.end(self.demo(eal_args=eal(lcores=harness.CPUS[0])))

    def test_a_worker_lcore(self):
        self.end(self.demo(eal_args=["--lcores", f"0@{harness.CPUS[0]},1@{harness.CPUS[-1]}", *eal()[2:]]))

    def test_mode_and_group(self):
        self.end_with_mode(self.demo("--set", "daemon.mode=0640", "--set", "daemon.group=root"))

    def end_with_mode(self, program):
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o640)
        self.end(program)

    def test_second_daemon_on_the_socket(self):
        first = self.demo()
        output = self.run_to_end(*eal(), "--", "--demo", "--socket", self.socket, code=1)
        self.assertIn(str(self.socket), output)
        self.end(first)

    def test_after_a_daemon_that_was_killed(self):
        self.demo().kill()
        self.assertTrue(self.socket.exists())
        self.end(self.demo())

    # The limit is for all threads together. A busy machine only makes them fewer.
    WAKE_UPS_PER_SECOND = 500
    ROUNDS_PER_WAKE_UP = 8

    def test_idle_takes_little(self):
        """Threads wake up seldom, and an engine makes few rounds each time."""
        for eal_args in (eal(lcores=harness.CPUS[0]), ["--lcores", f"(0,1)@{harness.CPUS[0]}", *eal()[2:]]):
            program = self.demo("--idle", "sleep", eal_args=eal_args)
            self.wait_for_quiet()
            began, rounds, before = time.monotonic(), self.rounds(), harness.wake_ups(program.process.pid)
            while (woken := harness.wake_ups(program.process.pid) - before) < 500 and time.monotonic() < began + 5:
                time.sleep(0.05)
            made, took = self.rounds() - rounds, time.monotonic() - began
            said = f"{woken} wake-ups and {made} rounds in {took:.1f} s"
            print(f"# {said}")
            self.assertGreater(made, 0, said)
            self.assertLess(woken, self.WAKE_UPS_PER_SECOND * took, said)
            self.assertLess(made, self.ROUNDS_PER_WAKE_UP * woken, said)
            self.end(program)

    def wait_for_quiet(self):
        """Waits until a second passes without a frame. A daemon that starts announces its addresses and its groups, and
        an engine polls for a moment after each frame."""
        until, frames = time.monotonic() + 30, -1
        while frames != (frames := self.engine_total("port_frames")):
            self.assertLess(time.monotonic(), until, f"{frames} frames, and no second without one in 30 s")
            time.sleep(1)

    def rounds(self):
        return self.engine_total("rounds")

    def engine_total(self, counter):
        """A counter of the engines' loops so far, for all engines together."""
        shown = self.finish(self.start([BUILD / "apps" / "uroce" / "uroce", "stat", "--openmetrics", "--socket", self.socket]), 30)
        return sum(map(int, re.findall(rf"(?m)^uroce_engine_{counter}_total\S* (\d+)$", shown)))


class RuntimeFolders(Daemon):
    """The folders that EAL makes below its `dpdk`."""

    def setUp(self):
        super().setUp()
        # EAL's variable for where to make it: other programs of this machine make and remove folders of their own.
        self.env = {"RUNTIME_DIRECTORY": str(self.directory)}

    def serve(self, socket, *words):
        """With EAL's arguments as they are, which `--demo` would complete."""
        eal_args = ["-l", "0", "--no-pci", "--no-huge", "-m", "192", "--no-telemetry", "--vdev=net_null0", *words]
        return self.launch("--socket", self.directory / socket, eal_args=eal_args, env=self.env)

    def left(self):
        folder = self.directory / "dpdk"
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []

    def test_the_demo_leaves_nothing(self):
        program = self.start([UROCED, "--demo", "--socket", self.socket], env=self.env)
        program.wait_for(UP, 20)
        self.assertEqual(self.left(), [], "also when it is killed")
        self.end(program)
        self.assertEqual(self.left(), [])

    def test_an_orderly_end_leaves_nothing(self):
        for words in ([], ["--file-prefix=uroce-x"], ["--file-prefix=uroce-y", "--in-memory"], ["--no-shconf"]):
            with self.subTest(words):
                self.end(self.serve("uroced.sock", *words))
                self.assertEqual(self.left(), [])
                perf = [harness.PERF, "write_bw", "-l", "0", "--no-pci", "--no-huge", "-m", "192", "--no-telemetry", *words]
                self.finish(self.start([*perf, "--", "--back-to-back", "-n", "10"], env=self.env), 30)
                self.assertEqual(self.left(), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_a_full_disk(self):
        """Neither the folder of EAL nor the log has room. The daemon loses its lines, and ends by itself."""
        full = self.directory / "full"
        full.mkdir()
        fill = f'mount -t tmpfs -o size=64k none {full} && touch {full}/log && dd if=/dev/zero of={full}/fill 2>{self.directory}/dd; '
        faulty = ["--demo", "--nonsense"]
        without_room = ["-l", "0", "--no-pci", "--no-huge", "-m", "192", "--vdev=net_null0", "--", "--socket", self.socket]
        for words, code in ((faulty, 2), (without_room, 1)):
            program = self.start(["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{fill} exec "$@" >{full}/log 2>&1',
                                  "sh", UROCED, *words], env={"RUNTIME_DIRECTORY": str(full)})
            self.finish(program, 30, code)

    def test_what_others_use_stays(self):
        """A daemon clears the folders of killed ones, and no other."""
        living, killed = self.serve("living.sock"), self.serve("killed.sock")
        killed.kill()
        mine = self.directory / "dpdk" / "rte"
        mine.mkdir()
        names = [f"uroce-{one.process.pid}" for one in (living, killed)]
        self.assertEqual(self.left(), sorted(["rte", *names]))
        for name in self.left():
            os.utime(self.directory / "dpdk" / name, (1, 1))
        last = self.serve("last.sock")
        self.assertEqual(self.left(), sorted(["rte", names[0], f"uroce-{last.process.pid}"]))
        self.end(last)
        self.end(living)
        self.assertEqual(self.left(), ["rte"])


class Reload(Daemon):
    def reload(self, program, text, until):
        self.write(text)
        program.process.send_signal(signal.SIGHUP)
        program.wait_for(until, 20)

    def test_what_changes_at_run_time_and_what_does_not(self):
        path = self.write(f"[daemon]\nsocket = \"{self.socket}\"\n")
        program = self.launch("--config", path, eal_args=eal("--vdev=net_null0"))
        self.reload(program, f"[daemon]\nsocket = \"{self.socket}\"\n", "nothing has changed")
        self.reload(program, "[limits]\nmax_qp = 7\n[daemon]\nlog_level = \"debug\"\n"
                             f"socket = \"{self.socket}x\"\n[[device]]\nvlan = 9\n", "settings were read again")
        output = program.output
        self.assertIn("limits.max_qp changes from automatic to 7\n", output)
        self.assertIn('daemon.log_level changes from "info" to "debug"\n', output)
        self.assertIn(f'daemon.socket changes from "{self.socket}" to "{self.socket}x" only when', output)
        self.assertIn("the number of devices changes from 0 to 1 only when", output)
        self.assertTrue(self.socket.exists())
        self.end(program)

    def test_a_bad_file_changes_nothing(self):
        path = self.write(f"[daemon]\nsocket = \"{self.socket}\"\n")
        program = self.launch("--config", path, eal_args=eal("--vdev=net_null0"))
        self.reload(program, "[limits]\nmax_qp = 7\nmax_cq = 0\n", "stay as they are")
        self.assertIn(f"{path}:3:10: limits.max_cq = 0", program.output)
        self.reload(program, f"[daemon]\nsocket = \"{self.socket}\"\n", "nothing has changed")
        self.end(program)

    def test_the_command_line_still_goes_before_the_file(self):
        path = self.write("[limits]\nmax_qp = 5\n")
        program = self.launch("--config", path, "--socket", self.socket, "--set", "limits.max_qp=6",
                              eal_args=eal("--vdev=net_null0"))
        self.reload(program, "[limits]\nmax_qp = 7\n", "nothing has changed")
        self.end(program)


class Service(Daemon):
    def test_tells_systemd(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.settimeout(20 * harness.SLOW)
            notify.bind(str(self.directory / "notify"))
            program = self.demo(env={"NOTIFY_SOCKET": str(self.directory / "notify")})
            self.assertIn(b"READY=1\nSTATUS=serving uroce0, uroce1", notify.recv(4096))
            program.process.send_signal(signal.SIGHUP)
            self.assertRegex(notify.recv(4096), rb"^RELOADING=1\nMONOTONIC_USEC=\d+")
            self.assertEqual(notify.recv(4096), b"READY=1")
            self.end(program)
            self.assertEqual(notify.recv(4096), b"STOPPING=1")

    def test_lines_for_the_journal(self):
        """systemd names the journal's stream by device and inode; here the log file takes its place."""
        path = self.directory / "journal"
        with path.open("wb") as out:
            status = os.fstat(out.fileno())
            script = f'exec "$@" 2>{path}'
            program = self.start(["sh", "-c", script, "sh", UROCED, *eal(), "--", "--demo", "--socket", self.socket],
                                 env={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
            limit = time.monotonic() + 20 * harness.SLOW
            while UP not in path.read_text() and time.monotonic() < limit:
                time.sleep(0.02)
            program.process.send_signal(signal.SIGTERM)
            self.finish(program, 20)
        self.assertRegex(path.read_text(), r"(?m)^<6>serving uroce0, uroce1 on ")


class Silence(Daemon):
    """A daemon that nobody uses leaves the processor alone."""

    SECONDS, MOST = 4, 15  # wake-ups a second, of all threads

    @staticmethod
    def wakes(program):
        tasks = pathlib.Path(f"/proc/{program.process.pid}/task").glob("*/status")
        return sum(int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", task.read_text())[1]) for task in tasks)

    def assert_sleeps(self, program):
        """Soon: naps grow with the time without work, and the kernel may have news first."""
        limit = time.monotonic() + 60 * harness.SLOW
        while True:
            before = self.wakes(program)
            time.sleep(self.SECONDS)
            count = self.wakes(program) - before
            if count <= self.SECONDS * self.MOST:
                return
            self.assertLess(time.monotonic(), limit, f"{count} wake-ups in {self.SECONDS} s: {program}")

    def test_demo(self):
        self.assert_sleeps(self.demo())

    @unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces")
    def test_interface(self):
        with harness.Namespaces() as net:
            program = self.start([UROCED, *eal(), "--", "--interface", "d0", "--socket", self.socket], net.names[0])
            program.wait_for(UP, 20)
            self.assert_sleeps(program)


class Operator(Daemon):
    """`uroce` looks into a daemon."""

    def uroce(self, *args, code=0):
        return self.finish(self.start([BUILD / "apps" / "uroce" / "uroce", *args, "--socket", self.socket]), 20, code)

    def test_devices(self):
        self.demo("--address", "192.0.2.1/24")
        devices = json.loads(self.uroce("devices", "--json"))
        self.assertEqual([d["device"] for d in devices], ["uroce0", "uroce1"])
        self.assertIn("192.0.2.1", devices[0]["addresses"])
        self.assertIn("10.117.0.2", devices[1]["addresses"])
        self.assertEqual(devices[0]["mtu"], 4096)
        self.assertRegex(self.uroce("devices"), r"(?m)^uroce0 +net_ring +up +4096 ")

    def test_lists_without_clients(self):
        self.demo()
        for kind in ("qp", "mr", "cq", "client"):
            self.assertEqual(json.loads(self.uroce("show", kind, "--json")), [])
        self.assertIn("unknown device 'uroce7'", self.uroce("show", "qp", "uroce7", code=1))

    def test_counters(self):
        self.demo()
        totals = json.loads(self.uroce("stat", "--interval", "0", "--json", "uroce1"))
        self.assertEqual([d["device"] for d in totals], ["uroce1"])
        self.assertIn("rx_packets", totals[0]["counters"])
        samples = self.uroce("stat", "--interval", "0.1", "--count", "2", "--json").splitlines()
        self.assertEqual([len(json.loads(line)) for line in samples], [2, 2])
        view = self.uroce("top", "--interval", "0.1", "--count", "2")
        # There are two samples, each with devices and connections.
        self.assertEqual(view.count("RX Gb/s"), 4)
        self.assertNotIn("\x1b", view)

    def test_no_daemon(self):
        self.assertIn("uroced --demo", self.uroce("devices", code=1))


if __name__ == "__main__":
    harness.main()
