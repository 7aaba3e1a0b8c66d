#!/usr/bin/env python3
"""The operator's tools on a running daemon: metrics, and what `uroce` shows besides."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import harness
from harness import BUILD, SOURCE, eal, free_port

UROCED = BUILD / "apps" / "uroced" / "uroced"
UROCE = BUILD / "apps" / "uroce" / "uroce"
UROCE_RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
PAIR = BUILD / "tests" / "system" / "clients" / "client_pair"
OPENMETRICS = "application/openmetrics-text"
# Of Debian's package python3-prometheus-client, which another interpreter in PATH does not see.
READER = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps({family.name: [[sample.labels, sample.value] for sample in family.samples] for family in families}))
"""


def samples_of(page):
    """The labels and values of each family's samples, by a strict reader of OpenMetrics."""
    read = subprocess.run(["/usr/bin/python3", "-c", READER], input=page, capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
    if read.returncode != 0:
        raise AssertionError(read.stderr)
    return json.loads(read.stdout)


class Tools(harness.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.directory / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}

    def demo(self, *args):
        program = self.start([UROCED, *eal(), "--", "--demo", "--socket", self.socket, *args])
        program.wait_for("serving uroce0", 30)
        return program

    def uroce(self, *args, code=0):
        done = subprocess.run([UROCE, *map(str, args)], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def traffic(self):
        """Two clients that exchange messages until the test ends, or until the file `stop` is in the folder that is returned."""
        folder = self.directory / "pair"
        folder.mkdir()
        harness.wait_for_rounds(self.start([PAIR, folder], env=self.env), folder)
        return folder

    def counter(self, name):
        said = self.uroce("stat", "--interval", "0", "--json", "--socket", self.socket, "uroce0")
        return json.loads(said)[0]["counters"].get(name, 0)


class ShowObjects(Tools):
    """The tables, the JSON and --help agree, for every kind of object that programs have."""

    def show(self, kind, *options):
        return json.loads(self.uroce("show", kind, "--json", "--socket", self.socket, *options))

    def fields(self, kind):
        said = self.uroce("show", kind, "--help").split("beside device, client, pid and command:\n")[1]
        return [line.split()[0] for line in said.splitlines() if line]

    def kinds(self):
        listed = self.uroce("show", "--help").split("Subcommands:\n")[1].split("\n\n")[0]
        return [line.split()[0] for line in listed.splitlines() if line.split()[0] not in ("client", "user", "peer", "restart")]

    def test_fields(self):
        self.demo()
        self.traffic()
        expected = {"qp", "mr", "pd", "cq"}
        if shutil.which("rping"):
            expected.add("cm_id")
            self.start([UROCE_RUN, "--socket", self.socket, "rping", "-s", "-a", "10.117.0.1"])
        limit = time.monotonic() + 30 * harness.SLOW
        while missing := {kind for kind in expected if not self.show(kind)}:
            self.assertLess(time.monotonic(), limit, missing)
            time.sleep(0.1)
        for kind in self.kinds():
            known = self.fields(kind)
            for row in self.show(kind):
                self.assertEqual(list(row)[:4], ["device", "client", "pid", "command"])
                self.assertEqual([name for name in row if name in known], list(row)[4:], f"{kind}: the order is that of --help")

    def test_filters(self):
        self.demo()
        self.traffic()
        both = self.show("qp")
        self.assertEqual({row["command"] for row in both}, {"client_pair"})
        self.assertEqual([row["qpn"] for row in self.show("qp", "--pid", both[0]["pid"])], [row["qpn"] for row in both])
        self.assertEqual(self.show("cq", "--pid", os.getpid()), [])
        self.assertEqual([row["device"] for row in self.show("qp", "--address", "10.117.0.2")], ["uroce0"])
        self.assertEqual(len(self.show("qp", "--qpn", both[0]["qpn"])), 2, "one end and the other")
        self.assertEqual(self.show("qp", "--qpn", "0x1"), [])
        self.assertIn("10.117", self.uroce("show", "qp", "--address", "10.117", code=2))

    def test_growth_since_a_file(self):
        self.demo()
        mark = self.directory / "mark"
        mark.write_text(self.uroce("stat", "--interval", "0", "--json", "--socket", self.socket))
        self.traffic()
        before = self.counter("rx_packets")
        grown = json.loads(self.uroce("stat", "--json", "--since", mark, "--socket", self.socket))[0]
        self.assertGreaterEqual(grown["growth"]["rx_packets"], before)
        self.assertLessEqual(grown["growth"]["rx_packets"], grown["counters"]["rx_packets"])
        self.assertIn(str(self.directory), self.uroce("stat", "--since", self.directory / "none", "--socket", self.socket, code=1))


class SocketOption(Tools):
    def test_before_the_command_and_behind_it(self):
        self.demo()
        behind = self.uroce("devices", "--socket", self.socket)
        self.assertIn("uroce0", behind)
        self.assertEqual(self.uroce("--socket", self.socket, "devices"), behind)
        self.assertIn("QPN", self.uroce("--socket", self.socket, "show", "qp") + "QPN")
        self.assertEqual(self.uroce("show", "--socket", self.socket, "cq"), self.uroce("--socket", self.socket, "show", "cq"))


class NoDaemon(Tools):
    """The error names the socket, and what to do about this one."""

    def test_nobody_listens(self):
        self.assertIn(f"`uroced --demo --socket {self.socket}`", self.uroce("devices", "--socket", self.socket, code=1))

    def test_another_program_listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.socket))
            listener.listen()
            asked = self.start([UROCE, "devices"], env=self.env)
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.send(b"\xff" * 64)
                self.assertRegex(self.finish(asked, 20, 1), rf"the uroce daemon at {self.socket}: .*of this release\?")


class Doctor(Tools):
    def test_without_a_daemon_it_says_how_to_start_one(self):
        done = subprocess.run([UROCE, "doctor", "--json", "--socket", self.socket], capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        found = {one["topic"]: one for one in json.loads(done.stdout)}
        self.assertEqual(found["daemon"]["verdict"], "bad")
        self.assertIn(str(self.socket), found["daemon"]["text"])
        self.assertRegex(found["kernel"]["text"], r"^Linux \d+\.\d+ ")
        self.assertIn("hugepages", found)

    def test_with_one_it_looks_at_the_devices(self):
        self.demo()
        found = json.loads(self.uroce("doctor", "--json", "--socket", self.socket))
        self.assertEqual([one for one in found if one["verdict"] == "bad"], [])
        self.assertIn("serves 2 devices", next(one["text"] for one in found if one["topic"] == "daemon"))
        self.assertIn("device uroce1", {one["topic"] for one in found})
        self.assertRegex(self.uroce("doctor", "--socket", self.socket), r"(?m)^good  daemon: uroced .* serves 2 devices\.$")

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_what_the_kernel_tells_of_an_interface(self):
        """Offloads, and neighbours that it has looked for in vain."""
        space, elsewhere = self.enterContext(harness.Namespaces(mtu=4200)).names
        harness.ip("-n", space, "address", "add", "10.7.0.1/24", "dev", "d0")
        harness.ip("-n", space, "link", "set", "d0", "arp", "on", "up")
        self.start([UROCED, *eal(), "--", "--interface", "d0", "--socket", self.socket], namespace=space).wait_for("serving uroce0", 30)
        doctor = lambda: self.finish(self.start([UROCE, "doctor", "--socket", self.socket], namespace=space), 30)
        said = doctor()
        self.assertIn("good  interface d0: it takes runs of packets as one (tx-udp-segmentation).", said)
        self.assertIn("good  rxe: nothing else has UDP port 4791 on this host.", said)
        self.assertNotIn("FAILED", said)
        harness.ip("-n", space, "neigh", "replace", "10.7.0.9", "dev", "d0", "nud", "failed")
        self.finish(self.start([sys.executable, SOURCE / "tests" / "system" / "veth.py", "d0", "tx-checksum-ip-generic", "off"], namespace=space), 30)
        self.finish(self.start([sys.executable, SOURCE / "tests" / "system" / "veth.py", "d0", "tx-scatter-gather", "off"], namespace=space), 30)
        said = doctor()
        self.assertIn("slow  interface d0: the kernel found no Ethernet address of 10.7.0.9 (FAILED).", said)
        self.assertIn("(tx-udp-segmentation is off, because it needs the checksum offload, which is off).", said)
        self.assertIn("To do: where the card can, ethtool -K d0 tx on tx-udp-segmentation on.", said)
        self.assertIn("To do: where the card can, ethtool -K d0 tx-scatter-gather on.", said)
        other = self.start([sys.executable, "-c", "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                            "s.bind(('', 4791)); print('bound', flush=True); time.sleep(600)"], namespace=elsewhere)
        other.wait_for("bound", 20)
        before_a_daemon = self.start([UROCE, "doctor", "--socket", self.directory / "none.sock"], namespace=elsewhere)
        self.assertIn("slow  rxe: another program has UDP port 4791 of all the kernel's addresses.", self.finish(before_a_daemon, 30, 1))


@unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
class DoctorElsewhere(Tools):
    """The daemon is in a container; here is an interface of the same name, with other properties."""

    def setUp(self):
        super().setUp()
        self.spaces = self.enterContext(harness.Namespaces(mtu=4200)).names
        for number, space in enumerate(self.spaces, 1):
            harness.ip("-n", space, "address", "add", f"10.7.0.{number}/24", "dev", "d0")
            harness.ip("-n", space, "link", "set", "d0", "arp", "on", "up")
        self.daemon = self.start([UROCED, *eal(), "--", "--interface", "d0", "--socket", self.socket], namespace=self.spaces[0])
        self.daemon.wait_for("serving uroce0", 30)
        harness.ip("-n", self.spaces[1], "link", "set", "d0", "mtu", "1000")

    def doctor(self, *before, space=1, code=0):
        return self.finish(self.start([*before, UROCE, "doctor", "--socket", self.socket], namespace=self.spaces[space]), 30, code)

    def test_root_looks_there(self):
        said = self.doctor()
        self.assertIn(f"good  network: the daemon (process {self.daemon.process.pid}) is in another network namespace, and its "
                      "interfaces are judged there.", said)
        self.assertIn("good  device uroce0: its path MTU is 4096.", said)
        self.assertIn("good  interface d0: it takes runs of packets as one (tx-udp-segmentation).", said)
        harness.ip("-n", self.spaces[0], "link", "set", "d0", "mtu", "1400")
        said = self.doctor(code=1)
        self.assertIn("and the MTU of d0 is 1400 bytes now", said)
        self.assertIn(f"To do: nsenter -t {self.daemon.process.pid} -n ip link set d0 mtu 4180", said)
        self.assertIn("and the MTU of d0 is 1400 bytes now", self.doctor(space=0, code=1))

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_another_user_says_that_it_cannot(self):
        self.directory.chmod(0o755)
        user = ("setpriv", "--reuid", "1001", "--regid", "1001", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
        said = self.doctor(*user)
        self.assertIn(f"slow  network: the daemon (process {self.daemon.process.pid}) is in another network namespace, into which this "
                      "user cannot look", said)
        self.assertIn(f"To do: as root, nsenter -t {self.daemon.process.pid} -n uroce doctor.", said)
        self.assertNotIn("1000 bytes", said)
        self.assertNotIn(" interface d0", said)
        self.assertNotIn("network:", self.doctor(*user, space=0))


class Trace(Tools):
    def queue_pair(self):
        rows = json.loads(self.uroce("show", "qp", "--json", "--socket", self.socket, "uroce0"))
        return next(row["qpn"] for row in rows if row["state"] == "RTS")

    def test_packets_of_one_queue_pair(self):
        self.demo()
        self.traffic()
        qpn = self.queue_pair()
        lines = self.uroce("trace", "--device", "uroce0", "--qp", qpn, "--count", 40, "--seconds", 30, "--socket", self.socket).splitlines()
        self.assertEqual(len(lines), 40)
        for line in lines:
            self.assertRegex(line, r"^ *-?\d+\.\d{6} [<>] (RC )?[A-Z_]+ qp=0x[0-9a-f]+ psn=\d+")
        received = [line for line in lines if " < " in line]
        self.assertTrue(received)
        for line in received:
            self.assertEqual(int(re.search(r"qp=(0x[0-9a-f]+)", line)[1], 16), int(qpn, 16), line)
        self.assertTrue(any(" > " in line for line in lines))

    def test_no_such_queue_pair(self):
        self.demo()
        said = self.uroce("trace", "--device", "uroce0", "--qp", "0x123456", "--socket", self.socket, code=1)
        self.assertIn(f"uroce0 has no queue pair 0x123456, and none that is connected to one of that number; "
                      f"`uroce show qp uroce0 --socket {self.socket}` lists those that it has", said)
        capture = self.start([UROCE, "capture", "-w", self.directory / "none.pcapng", "--device", "uroce0", "--qp", "0x123456",
                              "--seconds", "0.2", "--socket", self.socket])
        self.assertRegex(self.finish(capture, 30), r"uroce0 has no queue pair 0x123456.*; waiting for one that comes\n")

    def test_no_room_for_another_client(self):
        """The trace has the only connection, and cannot ask for queue pairs."""
        self.demo("--set", "daemon.max_clients=1")
        self.uroce("trace", "--device", "uroce0", "--qp", "0x123456", "--seconds", "0.2", "--socket", self.socket)

    def test_the_queue_pair_goes(self):
        """By its own number, and by that of its peer on another device."""
        self.demo()
        folder = self.traffic()
        traces = [self.start([UROCE, "trace", "--device", device, "--qp", self.queue_pair(), "--socket", self.socket])
                  for device in ("uroce0", "uroce1")]
        for trace in traces:
            trace.wait_for("psn=", 30)
        (folder / "stop").touch()
        for trace in traces:
            said = self.finish(trace, 30)
            self.assertEqual(len(re.findall(r"(?m)^queue pair 0x[0-9a-f]+ has gone$", said)), 1, said[-1000:])

    def test_a_reader_that_goes(self):
        self.demo()
        self.traffic()
        with subprocess.Popen([UROCE, "trace", "--device", "uroce0", "--qp", self.queue_pair(), "--seconds", "600", "--socket", self.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as trace:
            trace.stdout.readline()
            trace.stdout.close()
            self.assertEqual(trace.wait(30 * harness.SLOW), 0)


class Ping(Tools):
    OFF = ("--set", "daemon.answer_pings=false")

    def test_the_connection_manager_answers(self):
        self.demo(*self.OFF)
        said = self.uroce("ping", "10.117.0.2", "--count", 3, "--socket", self.socket)
        self.assertIn("10.117.0.2 by device uroce", said)
        self.assertRegex(said, r"UD, connection manager: 3 of 3 answered, min/avg/max [\d.]+/[\d.]+/[\d.]+ us\n")
        self.assertIn("start `uroce ping --answer`", said)
        self.assertIn("RC: nobody answers (it serves no such port)", said)
        self.assertRegex(said, r"path MTU 4096, by echoes of IP as long as such packets: 3 of 3 answered")
        self.assertIn("loss recovery: go-back-n with this peer, unless it is a uroce that answers no pings\n", said)

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_an_ordinary_user_does_not_learn_the_path_mtu(self):
        self.directory.chmod(0o755)
        self.demo(*self.OFF)
        said = subprocess.run([UROCE, "ping", "10.117.0.2", "--count", "1", "--socket", self.socket], user=1001, group=1001, extra_groups=[],
                              capture_output=True, text=True, timeout=60 * harness.SLOW, check=True).stdout
        self.assertRegex(said, "UD, connection manager: 1 of 1 answered")
        self.assertIn("path MTU: unknown; only root and the daemon's user may send echoes", said)

    def test_recovery_that_is_set(self):
        self.demo("--set", "engines.retransmission=go-back-n")
        said = self.ping_demo()
        self.assertIn("RC, 4096 bytes: 5 of 5 answered", said)
        self.assertIn("loss recovery: go-back-n; the peer answered no HELLO: it is not uroce, or one of the two sides is set to "
                      "go-back-n (device.retransmission)\n", said)

    def ping_demo(self, *args, **kw):
        return self.uroce("ping", "10.117.0.2", *args, "--socket", self.socket, **kw)

    def test_the_daemon_answers(self):
        daemon = self.demo()
        for _ in range(3):
            said = self.ping_demo()
            self.assertRegex(said, r"UD, connection manager: 5 of 5 answered")
            self.assertRegex(said, r"RC, 64 bytes: 5 of 5 answered")
            self.assertRegex(said, r"RC, 4096 bytes: 5 of 5 answered")
            self.assertIn("loss recovery: selective, because the peer is uroce", said)
        self.assertIn("answers pings already (daemon.answer_pings)", self.uroce("ping", "--answer", "--socket", self.socket, code=1))
        self.assertIn("RC, 64 bytes: 5 of 5 answered", self.uroce("ping", "127.0.0.1", "--socket", self.socket))
        # It ends while a peer is connected.
        peer = self.start([UROCE, "ping", "10.117.0.2", "--count", 1000, "--socket", self.socket])
        limit = time.monotonic() + 30 * harness.SLOW
        while self.counter("recv_completions") < 100:
            self.assertLess(time.monotonic(), limit, "no messages within 30 s")
        daemon.process.send_signal(signal.SIGTERM)
        self.finish(daemon, 30)
        peer.wait(30)

    def test_one_address_has_two_places(self):
        self.demo()
        many = [self.start([UROCE, "ping", "10.117.0.2", "--count", 300, "--socket", self.socket]) for _ in range(8)]
        said = [self.finish(one, 60) for one in many]
        answered = sum("RC, 64 bytes: 300 of 300 answered" in text for text in said)
        self.assertGreaterEqual(answered, 2)
        self.assertEqual(answered + sum("RC: nobody answers" in text for text in said), len(many))
        limit = time.monotonic() + 30 * harness.SLOW
        while "RC, 64 bytes: 5 of 5 answered" not in self.ping_demo():
            self.assertLess(time.monotonic(), limit, "the places do not come back")

    def test_messages_leave_below_the_rate_of_answers(self):
        """Above 2,000 a second the times would be those for which the daemon makes messages wait."""
        self.demo()
        began = time.monotonic()
        for _ in range(3):
            self.assertIn("RC, 4096 bytes: 1000 of 1000 answered", self.ping_demo("--count", 1000))
        # Not before: 1000 messages each of two sizes, 1 ms apart.
        self.assertGreater(time.monotonic() - began, 5.9)

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_one_device_does_not_answer(self):
        """Two hosts. The far one has a device that answers pings and one that does not."""
        near, far = self.enterContext(harness.Namespaces()).names
        harness.ip("-n", near, "link", "add", "d1", "type", "veth", "peer", "name", "d1", "netns", far)
        sockets = [self.directory / name for name in ("near.sock", "far.sock")]
        for number, (name, more) in enumerate(((near, ""), (far, "answer_pings = false\n")), 1):
            harness.ip("-n", name, "link", "set", "d1", "arp", "off", "up")
            settings = self.directory / f"{name}.toml"
            settings.write_text(f'[[device]]\ninterface = "d0"\naddresses = "10.7.0.{number}/24"\n'
                                f'[[device]]\ninterface = "d1"\naddresses = "10.8.0.{number}/24"\n{more}')
            self.start([UROCED, *eal(), "--", "--config", settings, "--socket", sockets[number - 1]],
                       namespace=name).wait_for("serving uroce0", 30)
        self.assertIn("RC, 64 bytes: 5 of 5 answered", self.uroce("ping", "10.7.0.2", "--socket", sockets[0]))
        said = self.uroce("ping", "10.8.0.2", "--socket", sockets[0])
        self.assertIn("UD, connection manager: 5 of 5 answered", said)
        self.assertIn("RC: nobody answers", said)
        # The port of that device is free.
        self.start([UROCE, "ping", "--answer", "--socket", sockets[1]]).wait_for("answering pings at 10.8.0.2", 20)
        self.assertIn("RC, 64 bytes: 5 of 5 answered", self.uroce("ping", "10.8.0.2", "--socket", sockets[0]))

    def test_messages_and_recovery(self):
        self.demo(*self.OFF)
        answer = self.start([UROCE, "ping", "--answer", "--socket", self.socket])
        answer.wait_for("answering pings", 20)
        for _ in range(3):
            said = self.uroce("ping", "10.117.0.2", "--socket", self.socket)
            self.assertRegex(said, r"RC, 64 bytes: 5 of 5 answered")
            self.assertRegex(said, r"RC, 4096 bytes: 5 of 5 answered")
            self.assertIn("loss recovery: selective, because the peer is uroce", said)
        answer.process.send_signal(signal.SIGINT)
        self.finish(answer, 20)

    def hosts_on_a_bridge(self, *daemon_args):
        """Two hosts with an MTU of 4200, and the bridge `far` and `near` of the namespace that is returned."""
        names = self.enterContext(harness.Namespaces(mtu=4200)).names
        middle = f"{names[0]}m"
        harness.ip("netns", "add", middle)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", middle], timeout=30 * harness.SLOW, check=False)
        harness.sysctl(middle, "net.ipv6.conf.default.disable_ipv6=1")
        harness.ip("-n", names[0], "link", "del", "d0")
        harness.ip("-n", middle, "link", "add", "bridge", "up", "type", "bridge")
        self.sockets = [self.directory / f"{number}.sock" for number in (1, 2)]
        self.daemons = []
        for number, (name, end) in enumerate(zip(names, ("near", "far")), 1):
            harness.ip("-n", name, "link", "add", "d0", "mtu", 4200, "type", "veth", "peer", "name", end, "mtu", 4200, "netns", middle)
            harness.ip("-n", middle, "link", "set", end, "master", "bridge", "up")
            harness.ip("-n", name, "link", "set", "d0", "arp", "off", "up")
            self.daemons.append(self.start([UROCED, *eal(), "--", "--interface", "d0", "--address", f"10.7.0.{number}/24,fd07::{number}/64",
                                            "--socket", self.sockets[number - 1], *daemon_args], namespace=name))
            self.daemons[-1].wait_for("serving uroce0", 30)
        return middle

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_a_network_with_a_smaller_mtu(self):
        """The bridge at first carries 4200 bytes, then 1500."""
        middle = self.hosts_on_a_bridge()
        said = self.uroce("ping", "10.7.0.2", "--socket", self.sockets[0])
        self.assertIn("RC, 4096 bytes: 5 of 5 answered", said)
        self.assertIn("the peer is uroce", said)
        harness.ip("-n", middle, "link", "set", "far", "mtu", 1500)
        said = self.uroce("ping", "10.7.0.2", "--socket", self.sockets[0], code=1)
        self.assertIn("messages of 4096 bytes do not come back, and small ones do: raise the MTU of what lies between", said)

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_a_smaller_mtu_where_nobody_answers_messages(self):
        middle = self.hosts_on_a_bridge(*self.OFF)
        for address in ("10.7.0.2", "fd07::2"):
            said = self.uroce("ping", address, "--socket", self.sockets[0])
            self.assertIn("path MTU 4096, by echoes of IP as long as such packets: 5 of 5 answered", said)
        harness.ip("-n", middle, "link", "set", "far", "mtu", 1500)
        for address in ("10.7.0.2", "fd07::2"):
            said = self.uroce("ping", address, "--socket", self.sockets[0], code=1)
            self.assertIn("echoes as long as packets of 4096 bytes do not come back, and ones of 1024 do: raise the MTU of the peer", said)
        ping = self.start([UROCE, "ping", "10.7.0.2", "--socket", self.sockets[0]])
        ping.wait_for("0 of 2 answered", 30)
        harness.ip("-n", middle, "link", "set", "far", "down")
        self.wait_for_frames(middle, "near", 4)  # two echoes and a small one in vain, and the next one
        harness.ip("-n", middle, "link", "set", "far", "up")
        said = self.finish(ping, 60, code=1)
        self.assertIn("and ones of 1024 do", said, "the peer was silent meanwhile, which says nothing about sizes")
        ping = self.start([UROCE, "ping", "10.7.0.2", "--socket", self.sockets[0]])
        ping.wait_for("0 of 2 answered", 30)
        self.daemons[0].process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # longer than two echoes are waited for
        self.daemons[0].process.send_signal(signal.SIGCONT)
        self.assertIn("and ones of 1024 do", self.finish(ping, 60, code=1), "the daemon stood still meanwhile")

    def wait_for_frames(self, namespace, interface, count):
        """Returns once the interface has received so many more."""
        def received():
            shown = self.finish(self.start(["ip", "-s", "-j", "link", "show", interface], namespace), 30)
            return json.loads(shown)[0]["stats64"]["rx"]["packets"]
        before, limit = received(), time.monotonic() + 30 * harness.SLOW
        while received() < before + count:
            self.assertLess(time.monotonic(), limit, f"{interface} receives no {count} frames")
            time.sleep(0.05)

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_a_kernel_that_answers_echoes_or_not(self):
        """The devices have the kernels' addresses, so that kernels answer for them."""
        names = self.enterContext(harness.Namespaces(mtu=4200)).names
        sockets = [self.directory / f"{number}.sock" for number in (1, 2)]
        for number, (name, path) in enumerate(zip(names, sockets), 1):
            harness.ip("-n", name, "address", "add", f"10.7.0.{number}/24", "dev", "d0")
            harness.ip("-n", name, "link", "set", "d0", "arp", "on", "up")
            daemon = self.start([UROCED, *eal(), "--", "--interface", "d0", "--socket", path, *self.OFF], namespace=name)
            daemon.wait_for("serving uroce0", 30)
        self.assertIn("path MTU 4096, by echoes of IP as long as such packets: 5 of 5 answered",
                      self.uroce("ping", "10.7.0.2", "--socket", sockets[0]))
        harness.sysctl(names[1], "net.ipv4.icmp_echo_ignore_all=1")
        said = self.uroce("ping", "10.7.0.2", "--socket", sockets[0])
        self.assertIn("path MTU: unknown; the peer's kernel answered no ICMP echo\n", said)

    @unittest.skipUnless(harness.may_make_namespaces(), "no network namespaces here")
    def test_a_host_without_roce(self):
        """Its kernel answers for the address. More pings than usual would only take longer: 3 s each."""
        near, far = self.enterContext(harness.Namespaces()).names
        harness.ip("-n", far, "address", "add", "10.7.0.2/24", "dev", "d0")
        harness.ip("-n", far, "link", "set", "d0", "arp", "on", "up")
        self.start([UROCED, *eal(), "--", "--interface", "d0", "--address", "10.7.0.1/24", "--socket", self.socket],
                   namespace=near).wait_for("serving uroce0", 30)
        said = self.finish(self.start([UROCE, "ping", "10.7.0.2", "--count", 1000, "--socket", self.socket]), 60, 1)
        self.assertIn("UD, connection manager: 0 of 5 answered\n", said)
        self.assertIn("10.7.0.2: its connection manager: no answer within 3 s", said)

    def test_nobody_there(self):
        self.demo()
        self.assertIn("10.117.0.77: its Ethernet address: no answer within 3 s", self.uroce("ping", "10.117.0.77", "--socket", self.socket, code=1))
        self.assertIn("nonsense", self.uroce("ping", "nonsense", "--socket", self.socket, code=1))


@unittest.skipUnless(shutil.which("tmux"), "tmux is missing: apt-get install tmux")
class Top(Tools):
    def test_fits_its_terminal(self):
        self.demo()
        self.traffic()
        for columns in (80, 160):
            server = f"uroce-top-{self.directory.name}-{columns}"
            run = lambda *args: subprocess.run(["tmux", "-L", server, *map(str, args)], capture_output=True, text=True, timeout=30 * harness.SLOW, check=True).stdout
            run("new-session", "-d", "-x", columns, "-y", 24, f"{UROCE} --socket {self.socket} top --interval 0.2")
            try:
                limit = time.monotonic() + 30 * harness.SLOW
                screen = ""
                titles = ("ENGINE", "BUSY", "DEVICE", "QPN", "connections", "CLIENT", "COMMAND")
                # tmux may show half a screen.
                while not re.search(r"(?m)^ +0 +[1-9]\d* %", screen) or any(title not in screen for title in titles):
                    self.assertLess(time.monotonic(), limit, screen)
                    time.sleep(0.1)
                    screen = run("capture-pane", "-p")
                self.assertEqual("WINDOW" in screen, columns == 160, screen)
                run("send-keys", "q")
            finally:
                with contextlib.suppress(subprocess.CalledProcessError):
                    run("kill-server")


class Metrics(Tools):
    def served(self):
        where = f"127.0.0.1:{free_port()}"
        program = self.demo("--set", f"metrics.listen={where}")
        return program, where

    def get(self, where, path="/metrics", accept="", method="GET"):
        request = urllib.request.Request(f"http://{where}{path}", headers={"Accept": accept} if accept else {}, method=method)
        with urllib.request.urlopen(request, timeout=20 * harness.SLOW) as reply:
            return reply.headers["Content-Type"], reply.read().decode()

    @unittest.skipUnless(shutil.which("promtool"), "promtool is missing: apt-get install prometheus")
    def test_promtool_finds_no_fault(self):
        _, where = self.served()
        self.traffic()
        kind, page = self.get(where)
        self.assertIn("text/plain", kind)
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_openmetrics(self):
        """The page by HTTP and that of `uroce stat` have the same families, and both are well-formed."""
        _, where = self.served()
        self.traffic()
        kind, page = self.get(where, accept=OPENMETRICS + "; version=1.0.0,text/plain;q=0.5")
        self.assertIn(OPENMETRICS, kind)
        served = samples_of(page)
        self.assertEqual(set(served), set(samples_of(self.uroce("stat", "--openmetrics", "--socket", self.socket))))
        received = {labels["device"]: value for labels, value in served["uroce_rx_bytes"]}
        self.assertEqual(set(received), {"uroce0", "uroce1"})
        self.assertGreater(sum(received.values()), 0)
        self.assertGreater(sum(value for _, value in served["uroce_engine_busy_seconds"]), 0)
        self.assertIn("client_pair", {labels["command"] for labels, _ in served["uroce_client_queue_pairs"]})
        self.assertIn("qp", {labels["resource"] for labels, _ in served["uroce_user_budget_used"]})
        # The program's connections, and with those its user, have all of the devices' traffic but for queue pair 1.
        of_clients = sum(value for labels, value in served["uroce_client_rx_bytes"] if labels["command"] == "client_pair")
        self.assertGreater(of_clients, 0)
        self.assertGreater(sum(value for _, value in served["uroce_user_rx_bytes"]), 0)

    def test_an_engine_is_busy_for_a_share_of_the_time(self):
        self.demo()
        self.traffic()

        def busy():
            page = self.uroce("stat", "--openmetrics", "--socket", self.socket)
            return sum(float(v) for v in re.findall(r"^uroce_engine_busy_seconds_total\S* (\S+)$", page, re.MULTILINE))

        began, first = time.monotonic(), busy()
        while (last := busy()) == first and time.monotonic() < began + 30 * harness.SLOW:
            pass
        self.assertGreater(last, first)
        self.assertLessEqual(last - first, time.monotonic() - began, "one engine works for less than the time that passes")

    def test_other_requests(self):
        program, where = self.served()
        for path, method, status in (("/", "GET", 404), ("/metrics/", "GET", 404), ("/metrics", "POST", 405), ("/metrics", "DELETE", 405)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get(where, path, method=method)
            self.assertEqual(refused.exception.code, status, path)
        host, port = where.split(":")
        # More connections than are served, which say nothing or nonsense.
        with contextlib.ExitStack() as crowd:
            for said in (b"", b"\x00\xff" * 5000, b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 60000) * 8:
                one = crowd.enter_context(socket.create_connection((host, int(port)), timeout=20 * harness.SLOW))
                with contextlib.suppress(OSError):
                    one.sendall(said)
            self.assertIn("uroce0", self.uroce("devices", "--socket", self.socket))
        limit = time.monotonic() + 30 * harness.SLOW
        page = ""
        while "uroce_build_info" not in page:
            self.assertLess(time.monotonic(), limit, "no page after the crowd has gone")
            with contextlib.suppress(OSError):
                page = self.get(where)[1]
        program.process.send_signal(signal.SIGTERM)
        self.assertIn("ended", self.finish(program, 30))

    def test_requests_that_never_end(self):
        """The attack: connections that send a line of a header now and then. Each ends after 10 s all the same."""
        _, where = self.served()
        host, port = where.split(":")
        began = time.monotonic()
        with contextlib.ExitStack() as crowd:
            drips = [crowd.enter_context(socket.create_connection((host, int(port)), timeout=20 * harness.SLOW,
                                                                  source_address=(f"127.0.0.{n}", 0))) for n in range(2, 18)]
            for one in drips:
                one.sendall(b"GET /metrics HTTP/1.1\r\n")
            page = ""
            while "uroce_build_info" not in page:
                self.assertLess(time.monotonic(), began + 20 * harness.SLOW, "no page")
                for one in drips:
                    with contextlib.suppress(OSError):
                        one.sendall(b"X: 1\r\n")
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://{where}/metrics", timeout=3) as reply:
                        page = reply.read().decode()
                time.sleep(1)  # with many lines the request would be too long

    def test_an_address_that_cannot_be_used(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            program = self.start([UROCED, *eal(), "--", "--demo", "--socket", self.socket, "--set", f"metrics.listen={where}"])
            self.assertIn(f"cannot listen for metrics on {where}: Address already in use; set metrics.listen", self.finish(program, 30, 1))
        for wrong in ("9464", "localhost:9464", "127.0.0.1:0", "[::1:9464", "127.0.0.1:70000"):
            program = self.start([UROCED, "--demo", "--socket", self.socket, "--set", f"metrics.listen={wrong}"])
            self.assertIn("it must be an address with a port", self.finish(program, 30, 2))

    def test_the_dashboard_names_metrics_that_exist(self):
        described = self.uroce("stat", "--describe")
        known = set(re.findall(r"`(uroce_\w+)", described))
        dashboard = json.loads((SOURCE / "config" / "grafana.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        expressions += [variable["query"] for variable in dashboard["templating"]["list"] if "uroce_" in variable["query"]]
        used = {name for text in expressions for name in re.findall(r"\buroce_\w+", text)}
        self.assertGreater(len(used), 20)
        self.assertEqual(used - known, set())


if __name__ == "__main__":
    harness.main()
