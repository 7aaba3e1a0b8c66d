#!/usr/bin/env python3
"""The rights of the daemon, what it does without them, and who watches it: users, capabilities, system calls, the watchdog
and the unit file."""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.request

import harness
from harness import BUILD, SOURCE, Namespaces, eal, ip

UROCED = BUILD / "apps" / "uroced" / "uroced"
UROCE = BUILD / "apps" / "uroce" / "uroce"
NVMF = BUILD / "apps" / "nvmf" / "uroce_nvmf"
PAIR = BUILD / "tests" / "system" / "clients" / "client_pair"
# Of each unit, the file of its user and the worst rating that systemd-analyze(1) may give: tenths, of 10.
UNITS = {"uroced": 25, "uroce-nvmf": 25}
# A user that each Debian has and nobody is, in place of the daemon's own.
GAMES, OTHER = 5, 4711
AS_GAMES = ("--set", "privilege.user=games")
NET_ADMIN = f"{1 << 12:016x}"
NOTHING = f"{0:016x}"
ROOT = os.geteuid() == 0
# As a systemd unit starts a program of an ordinary user with the two capabilities for an interface.
AMBIENT = ("setpriv", f"--reuid={GAMES}", f"--regid={GAMES}", "--clear-groups", "--inh-caps=-all,+net_raw,+net_admin",
           "--ambient-caps=-all,+net_raw,+net_admin")


def threads(program):
    """The fields of each thread's status, the main thread first."""
    out = []
    for task in sorted(pathlib.Path(f"/proc/{program.process.pid}/task").iterdir(), key=lambda p: int(p.name)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread of a client that has gone
            out.append(dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line))
    return out


def workers(program):
    """The threads of the engines."""
    return [int(t["Pid"]) for t in threads(program) if re.match("(rte|lcore|dpdk)-worker", t["Name"])]


def engines(count):
    """EAL arguments for this many engines, on threads of their own."""
    return ["--lcores", f"(0-{count})@{harness.CPUS[0]}", *eal()[2:]]


def slice_of(thread):
    """ns, by sched_getattr(2): the member `sched_runtime`."""
    number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
    attr = ctypes.create_string_buffer(56)
    if ctypes.CDLL(None, use_errno=True).syscall(number, thread, attr, len(attr), 0) != 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return struct.unpack_from("<Q", attr.raw, 24)[0]


class Daemon(harness.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.socket = self.directory / "run" / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}

    def launch(self, *args, eal_args=None, before=(), **kw):
        program = self.start([*before, UROCED, *(eal() if eal_args is None else eal_args), "--", "--socket", self.socket, *args], **kw)
        program.wait_for("serving uroce0", 30)
        return program

    def end(self, program):
        program.process.send_signal(signal.SIGTERM)
        return self.finish(program, 30)

    def check_threads(self, program, uid, main=NOTHING, least=4):
        """Every thread is this user without capabilities, but for those of the main thread, and cannot gain any."""
        found = threads(program)
        self.assertGreaterEqual(len(found), least)
        for i, thread in enumerate(found):
            kept = main if i == 0 else NOTHING
            self.assertEqual(set(thread["Uid"].split()), {str(uid)}, thread["Name"])
            self.assertEqual((thread["CapEff"], thread["CapPrm"]), (kept, kept), thread["Name"])
            self.assertEqual((thread["CapInh"], thread["CapAmb"]), (NOTHING, NOTHING), thread["Name"])
            self.assertEqual((thread["NoNewPrivs"], thread["Seccomp"]), ("1", "2"), thread["Name"])

    def traffic(self, user=0, rounds=True, namespace=None):
        """Verified traffic between the daemon's first two devices, or on its only one; without `rounds` as little as there may be."""
        folder = self.directory / f"pair-{time.monotonic_ns()}"
        folder.mkdir()
        os.chown(folder, user, -1)
        words = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        pair = self.start([*words, PAIR, folder], env=self.env, namespace=namespace)
        if rounds:
            harness.wait_for_rounds(pair, folder)
        (folder / "stop").touch()
        self.finish(pair, 60)

    def uroce(self, *args, user=0, code=0):
        words = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        return self.finish(self.start([*words, UROCE, *args, "--socket", self.socket]), 20, code)


@unittest.skipUnless(ROOT, "only root has rights to give up")
class FromRoot(Daemon):
    def test_becomes_the_user(self):
        """Engines run on threads of their own, or on the main thread."""
        for eal_args in (engines(2), eal(lcores=harness.CPUS[0])):
            with self.subTest(" ".join(map(str, eal_args[:2]))):
                program = self.launch("--demo", *AS_GAMES, eal_args=eal_args)
                self.assertIn("running as user games", program.output)
                self.check_threads(program, GAMES)
                self.traffic()
                self.traffic(user=OTHER)
                self.check_threads(program, GAMES)
                self.end(program)
                self.assertFalse(self.socket.exists())
                self.assertNotIn("warning", program.output)
                self.assertNotIn("error", program.output)

    def test_the_thread_of_the_metrics(self):
        where = f"127.0.0.1:{harness.free_port()}"
        program = self.launch("--demo", *AS_GAMES, "--set", f"metrics.listen={where}")
        self.check_threads(program, GAMES)
        with urllib.request.urlopen(f"http://{where}/metrics", timeout=30 * harness.SLOW) as page:
            self.assertIn(b"uroce_link_up", page.read())
        self.assertNotIn("error", self.end(program))

    def test_engines_that_sleep_wake_soon(self):
        """By the highest priority, or by short slices where a priority would starve others (pmd_glue/wake_priority.cc)."""
        kernel = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
        program = self.launch("--demo", "--user", "games", eal_args=engines(2))
        found = workers(program)
        nice = os.getpriority(os.PRIO_PROCESS, 0) if kernel >= (6, 6) else -20
        self.assertEqual([os.getpriority(os.PRIO_PROCESS, thread) for thread in found], [nice, nice])
        if kernel >= (6, 12):
            self.assertEqual([slice_of(thread) for thread in found], [100000, 100000])
        self.end(program)

    def test_many_clients_come_and_go(self):
        """Engines wake by pipes that root made, and each client has an end of its own."""
        program = self.launch("--demo", *AS_GAMES, eal_args=engines(1))
        for _ in range(10):
            self.traffic(user=OTHER, rounds=False)
        self.check_threads(program, GAMES)
        self.end(program)

    def test_an_ordinary_user_may_run_it(self):
        self.socket.parent.mkdir()
        os.chown(self.socket.parent, OTHER, OTHER)
        before = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")
        program = self.launch("--demo", eal_args=["--lcores", f"(0-1)@{harness.CPUS[0]}", *eal()[2:]], before=before,
                              env={"XDG_RUNTIME_DIR": str(self.socket.parent)})
        self.check_threads(program, OTHER)
        self.traffic(user=OTHER)
        self.end(program)
        self.assertFalse(self.socket.exists())

    def test_root_of_a_container_that_cannot_change_users(self):
        program = self.start(["unshare", "--user", "--map-root-user", UROCED, *eal(), "--", "--demo", "--socket", self.socket,
                              *AS_GAMES])
        self.assertIn('set privilege.user to "" to stay root', self.finish(program, 30, 1))

    def test_captures_are_for_root_and_the_user(self):
        self.launch("--demo", *AS_GAMES)
        words = ("capture", "-w", "/dev/null", "--device", "uroce0", "--seconds", "0.1")
        self.uroce(*words)
        self.uroce(*words, user=GAMES)
        self.assertIn("not for user 4711", self.uroce(*words, user=OTHER, code=1))

    def test_reads_its_settings_again(self):
        path = self.directory / "uroced.toml"
        path.write_text('[privilege]\nuser = "games"\n')
        program = self.launch("--config", path, eal_args=eal("--vdev=net_null0"))
        self.check_threads(program, GAMES)
        path.write_text('[privilege]\nuser = "games"\n[[device]]\naddresses = ["192.0.2.9/24"]\n[limits]\nmax_qp = 7\n')
        program.process.send_signal(signal.SIGHUP)
        program.wait_for("limits.max_qp changes from", 20)
        self.end(program)

    def test_stays_root_without_such_a_user(self):
        program = self.launch("--demo", "--user", "uroce-of-no-machine")
        self.assertIn("staying root, since this machine has no user uroce-of-no-machine", program.output)
        found = threads(program)
        self.assertEqual({thread["Uid"].split()[0] for thread in found}, {"0"})
        self.assertEqual({(thread["NoNewPrivs"], thread["Seccomp"]) for thread in found}, {("1", "2")})
        self.traffic()
        self.end(program)

    def test_stays_root_and_unfiltered_if_told_so(self):
        program = self.launch("--demo", "--set", "privilege.user=", "--set", "privilege.seccomp=false")
        self.assertNotIn("root", program.output)
        self.assertEqual({thread["Seccomp"] for thread in threads(program)}, {"0"})
        self.end(program)

    def test_is_not_the_user_of_all_strangers(self):
        program = self.start([UROCED, *eal(), "--", "--demo", "--user", "nobody", "--socket", self.socket])
        self.assertIn("choose a user that is the daemon's alone", self.finish(program, 30, 2))

    def test_a_socket_that_is_not_its_own_stays_and_is_replaced(self):
        self.socket.parent.mkdir()
        self.end(self.launch("--demo", *AS_GAMES))
        self.assertTrue(self.socket.exists())
        self.end(self.launch("--demo", *AS_GAMES))


@unittest.skipUnless(ROOT and harness.may_make_namespaces(), "network namespaces are needed")
class Ports(Daemon):
    """Ports on interfaces of the kernel, opened as root or with two capabilities."""

    def link_follows(self, namespace, interface):
        for state in ("down", "up"):
            ip("-n", namespace, "link", "set", interface, state)
            limit = time.monotonic() + 20 * harness.SLOW
            up = None
            while up != (state == "up") and time.monotonic() < limit:
                up = json.loads(self.uroce("devices", "--json"))[0]["link_up"]
            self.assertEqual(up, state == "up")

    def test_af_packet(self):
        with Namespaces() as spaces:
            name = spaces.names[0]
            program = self.launch(*AS_GAMES, "--address", "192.0.2.1/24", eal_args=eal("--vdev=net_af_packet0,iface=d0"),
                                  namespace=name)
            self.check_threads(program, GAMES)
            self.link_follows(name, "d0")
            program.process.send_signal(signal.SIGHUP)
            program.wait_for("nothing has changed", 20)
            self.end(program)

    def test_af_packet_with_ambient_capabilities(self):
        with Namespaces() as spaces:
            self.socket.parent.mkdir()
            os.chown(self.socket.parent, GAMES, GAMES)
            program = self.launch(eal_args=eal("--vdev=net_af_packet0,iface=d0"), before=AMBIENT, namespace=spaces.names[0],
                                  env={"XDG_RUNTIME_DIR": str(self.socket.parent)})
            self.check_threads(program, GAMES)
            self.link_follows(spaces.names[0], "d0")
            self.end(program)
            self.assertFalse(self.socket.exists())

    @unittest.skipUnless(pathlib.Path("/dev/net/tun").exists(), "this machine has no /dev/net/tun")
    def test_tap_leaves_nothing_behind(self):
        with Namespaces() as spaces:
            name = spaces.names[0]
            program = self.launch(*AS_GAMES, eal_args=eal("--vdev=net_tap0,iface=t0"), namespace=name)
            self.check_threads(program, GAMES, main=NET_ADMIN)
            output = self.end(program)
            self.assertNotIn("not permitted", output)
            shown = subprocess.run(["ip", "-n", name, "-br", "link"], capture_output=True, text=True, timeout=30 * harness.SLOW, check=True).stdout
            self.assertNotIn("t0", shown)

    def test_af_xdp_takes_its_program_along(self):
        with Namespaces(mtu=1500) as spaces:
            name = spaces.names[0]
            program = self.start([UROCED, *eal("--vdev=net_af_xdp0,iface=d0"), "--", "--socket", self.socket, *AS_GAMES], namespace=name)
            try:
                program.wait_for("serving uroce0", 30)
            except AssertionError as e:
                self.skipTest(f"this machine gives no AF_XDP socket: {str(e).splitlines()[-1]}")
            self.check_threads(program, GAMES, main=NET_ADMIN)
            self.end(program)
            shown = subprocess.run(["ip", "-n", name, "link", "show", "d0"], capture_output=True, text=True, timeout=30 * harness.SLOW, check=True).stdout
            self.assertNotIn("xdp", shown)


class Target(Daemon):
    """The rights of uroce_nvmf."""

    def serve(self, *args, eal_args, namespace=None, before=(), **kw):
        program = self.start([*before, NVMF, *eal_args, "--", "--nqn", "nqn.2024-01.org.example:disks", *args], namespace, **kw)
        program.wait_for("serving 1 subsystem", 30)
        return program

    @unittest.skipUnless(ROOT, "only root has rights to give up")
    def test_becomes_the_user(self):
        disk = self.directory / "disk.img"
        disk.write_bytes(bytes(1 << 20))
        disk.chmod(0o600)  # opened before
        program = self.serve("--namespace", disk, "--user", "games", eal_args=[*engines(1), "--vdev=net_null0"])
        self.assertIn("running as user games", program.output)
        self.check_threads(program, GAMES, least=1)
        self.assertNotIn("no-seccomp", self.end(program))

    @unittest.skipUnless(ROOT, "only root has rights to give up")
    def test_stays_root_without_such_a_user(self):
        program = self.serve("--namespace", "memory:1M", "--user", "uroce-of-no-machine", eal_args=eal("--vdev=net_null0"))
        self.assertIn("staying root", program.output)
        self.assertEqual({(thread["NoNewPrivs"], thread["Seccomp"]) for thread in threads(program)}, {("1", "2")})
        self.end(program)
        program = self.serve("--namespace", "memory:1M", "--user", "", "--no-seccomp", eal_args=eal("--vdev=net_null0"))
        self.assertEqual({thread["Seccomp"] for thread in threads(program)}, {"0"})
        self.end(program)

    @unittest.skipUnless(ROOT and harness.may_make_namespaces(), "network namespaces are needed")
    def test_ambient_capabilities_go(self):
        """As the unit starts it."""
        with Namespaces() as spaces:
            self.socket.parent.mkdir()
            os.chown(self.socket.parent, GAMES, GAMES)
            program = self.serve("--namespace", "memory:1M", eal_args=eal("--vdev=net_af_packet0,iface=d0"), before=AMBIENT,
                                 namespace=spaces.names[0], env={"XDG_RUNTIME_DIR": str(self.socket.parent)})
            self.check_threads(program, GAMES, least=1)
            self.end(program)


class Watchdog(Daemon):
    WATCHDOG_US = 400_000

    def setUp(self):
        super().setUp()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notify.close)
        self.notify.settimeout(20 * harness.SLOW)
        self.notify.bind(str(self.directory / "notify"))
        self.supervised = {"NOTIFY_SOCKET": str(self.directory / "notify"), "WATCHDOG_USEC": str(self.WATCHDOG_US)}

    def said(self, seconds):
        """The daemon's messages within this time."""
        out, until = [], time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.notify.settimeout(left)
            try:
                out.append(self.notify.recv(4096))
            except TimeoutError:
                break
        self.notify.settimeout(20 * harness.SLOW)
        return out

    def test_is_fed_while_engines_turn_or_sleep(self):
        for eal_args in (engines(2), eal(lcores=harness.CPUS[0])):
            with self.subTest(" ".join(map(str, eal_args[:2]))):
                program = self.launch("--demo", eal_args=eal_args, env=self.supervised)
                self.assertIn(b"READY=1", self.notify.recv(4096))
                for _ in range(4):
                    self.assertEqual(self.notify.recv(4096), b"WATCHDOG=1")
                self.end(program)
                self.notify.setblocking(False)  # all is here that it said
                with contextlib.suppress(BlockingIOError):
                    while self.notify.recv(4096):
                        pass
                self.notify.settimeout(20 * harness.SLOW)

    def test_nobody_asks_for_it(self):
        program = self.launch("--demo", env={"NOTIFY_SOCKET": self.supervised["NOTIFY_SOCKET"]})
        self.assertIn(b"READY=1", self.notify.recv(4096))
        self.assertEqual(self.said(1), [])
        self.end(program)

    @unittest.skipUnless(ROOT, "only root may stop a thread of the daemon")
    def test_a_stuck_engine_starves_it(self):
        program = self.launch("--demo", eal_args=engines(2), env=self.supervised)
        with harness.standing(workers(program)[1]):
            program.wait_for("engine 1 has made no round", 20)
            self.said(0.2)
            self.assertEqual(self.said(3 * self.WATCHDOG_US / 1e6), [])
        program.wait_for("engine 1 turns again", 20)
        self.assertEqual(self.notify.recv(4096), b"WATCHDOG=1")
        self.end(program)


class Log(Daemon):
    FLOOD = r"""
import socket, sys
for _ in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    s.send(b"?")
    s.recv(65536)
    s.close()
"""

    def test_a_client_cannot_flood_it(self):
        program = self.launch("--demo")
        flood = 1000
        words = ["setpriv", f"--reuid={OTHER}", "--clear-groups"] if ROOT else []
        client = self.start([*words, sys.executable, "-c", self.FLOOD, self.socket, flood])
        began = time.monotonic()
        self.finish(client, 60)
        # Lines tell what the flood hid, each of ten seconds.
        user = OTHER if ROOT else os.geteuid()
        limit = time.monotonic() + 40 * harness.SLOW
        lines = hidden = 0
        while lines + hidden < flood and time.monotonic() < limit:
            time.sleep(0.1)
            said = program.output
            lines = said.count("is shorter than a header")
            hidden = sum(map(int, re.findall(rf"(\d+) more lines about clients of user {user} were left out", said)))
        self.assertEqual(lines + hidden, flood, program.output)
        self.assertGreaterEqual(lines, 20)
        # A line a second, and all have been written by now: a busy machine only makes this more.
        self.assertLessEqual(lines, 20 + (time.monotonic() - began) + 1)
        self.end(program)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed (systemd)")
class Unit(harness.Case):
    def unit(self, name):
        return SOURCE / "config" / f"{name}.service"

    def test_rating(self):
        for name, worst in UNITS.items():
            with self.subTest(name):
                done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={worst}", "--no-pager",
                                       str(self.unit(name))], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
                self.assertIn("Overall exposure level", done.stdout)

    def test_the_disks_alone(self):
        """The target's unit with the lines of config/appliance.md for its disks: no other device, and no worse."""
        page = (SOURCE / "config" / "appliance.md").read_text()
        lines = next(block for block in re.findall(r"(?s)```ini\n(.*?)```", page) if "/dev/sdb" in block)
        unit = self.directory / "uroce-nvmf.service"
        unit.write_text(self.unit("uroce-nvmf").read_text() + lines)
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={UNITS['uroce-nvmf']}", "--no-pager",
                               str(unit)], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
        self.assertRegex(done.stdout, r"some special devices: (char-rtc:r )?/dev/sdb:rw *[0-9]")

    def test_the_user_that_it_names(self):
        for name in UNITS:
            with self.subTest(name):
                settings = dict(line.split("=", 1) for line in self.unit(name).read_text().splitlines() if "=" in line)
                users = (SOURCE / "config" / f"{name}.sysusers").read_text()
                self.assertRegex(users, rf"(?m)^u {settings['User']} ")
                if name == "uroced":
                    self.assertIn(f'user = "{settings["User"]}"', (SOURCE / "config" / "uroced.toml").read_text())


if __name__ == "__main__":
    harness.main()
