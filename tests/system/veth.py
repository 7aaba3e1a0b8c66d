"""Ports on interfaces that the kernel keeps (net_uroce_kif), on a veth pair between two namespaces: what the tests of them share.

Usage: veth.py INTERFACE FEATURE on|off    switches an offload of an interface of this namespace
"""

import array
import dataclasses
import fcntl
import itertools
import json
import re
import socket
import struct
import subprocess
import sys
import time

import harness
from harness import BUILD, IDLE, eal

TESTS = (("write_bw", ("-s", "65536", "-n", "200")), ("read_bw", ("-s", "65536", "-n", "200")),
         ("send_bw", ("-s", "65536", "-n", "200")), ("send_bw", ("-s", "100", "-n", "2000", "-q", "5")),
         ("atomic_bw", ("-n", "300")))


# Traffic whose interface `ip` changes. `ip` may wait for 15 s, when the kernel takes other namespaces down.
PATIENT = ("-u", "20")

UROCED = BUILD / "apps" / "uroced" / "uroced"
UROCE = BUILD / "apps" / "uroce" / "uroce"
_serial = itertools.count()


def engines(count, *extra):
    """EAL arguments with this many engines beside the main thread, all on one CPU."""
    cpu = harness.CPUS[0]
    return ["--lcores=" + ",".join(f"{i}@{cpu}" for i in range(count + 1)), *eal(*extra)[2:]]


@dataclasses.dataclass
class End:
    """One end of a benchmark: its namespace, its EAL arguments, and its options."""

    space: str
    eal: list
    args: list


def by(daemon):
    """The end that uses a daemon of Case.serve()."""
    return End(daemon.space, [], ["--daemon", "--socket", daemon.socket])


def alone(space, *args, interface="d0"):
    """The end that has its own port on an interface of a namespace."""
    return End(space, eal(), [*IDLE, "--interface", interface, *args])


def link_of(name):
    """d0 of a namespace, as `ip -j link` tells it."""
    shown = subprocess.run(["ip", "-n", name, "-j", "link", "show", "d0"], capture_output=True, text=True, timeout=30 * harness.SLOW, check=True)
    return json.loads(shown.stdout)[0]


def renew(names, pause=0, same_index=False, arp="off"):
    """Deletes the pair of d0 and, after some seconds, makes one with the same addresses, and maybe the same indexes."""
    old = [link_of(name) for name in names]
    harness.ip("-n", names[0], "link", "del", "d0")  # takes the other end along
    time.sleep(pause)
    index = [["index", one["ifindex"]] if same_index else [] for one in old]
    harness.ip("-n", names[0], "link", "add", "d0", "address", old[0]["address"], *index[0], "type", "veth", "peer", "name", "d0",
               "address", old[1]["address"], *index[1], "netns", names[1])
    for name in names:
        harness.ip("-n", name, "link", "set", "d0", "arp", arp, "up")


def rename(space, old, new):
    """Gives an interface another name. Older kernels do that only while it is down."""
    harness.ip("-n", space, "link", "set", old, "down")
    harness.ip("-n", space, "link", "set", old, "name", new)
    harness.ip("-n", space, "link", "set", new, "up")


def set_feature(interface, name, on):
    """Switches an interface's offload on or off: struct ethtool_sset_info, _gstrings, _sfeatures of linux/ethtool.h."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def call(data):
            buffer = array.array("B", data)
            fcntl.ioctl(control, 0x8946, struct.pack("16sP", interface.encode(), buffer.buffer_info()[0]))
            return buffer.tobytes()
        count = struct.unpack("IIQI", call(struct.pack("IIQI", 0x37, 0, 1 << 4, 0)))[3]
        strings = call(struct.pack("III", 0x1B, 4, count) + bytes(32 * count))[12:]
        index = [strings[i * 32:(i + 1) * 32].rstrip(b"\0").decode() for i in range(count)].index(name)
        words = [0] * (2 * ((count + 31) // 32))
        words[index // 32 * 2:index // 32 * 2 + 2] = [1 << index % 32, (1 << index % 32) if on else 0]
        call(struct.pack(f"II{len(words)}I", 0x3B, len(words) // 2, *words))
        blocks = len(words) // 2
        got = struct.unpack(f"II{4 * blocks}I", call(struct.pack("II", 0x3A, blocks) + bytes(16 * blocks)))[2:]
        active = got[index // 32 * 4 + 2] >> index % 32 & 1  # of available, requested, active, never changed
        if bool(active) != on:
            sys.exit(f"{interface} keeps {name} {'on' if active else 'off'}")


def wait_for_devices(case, path, text, there=True):
    """Returns what `uroce devices` shows at a daemon's socket, once `text` is there, or is not."""
    limit = time.monotonic() + 20 * harness.SLOW
    while (text in (shown := case.finish(case.start([UROCE, "devices", "--socket", path]), 30))) != there:
        if time.monotonic() > limit:
            case.fail(f"'{text}' {'did not come' if there else 'did not go'}:\n{shown}")
        time.sleep(0.05)
    return shown


class Case(harness.Case):
    def spaces(self, mtu):
        """Two namespaces. The kernel has addresses on d0, which the ports take unless they are given others."""
        spaces = harness.Namespaces(mtu)
        spaces.__enter__()
        self.addCleanup(spaces.__exit__)
        self.give_addresses(spaces.names)
        return spaces.names

    @staticmethod
    def give_addresses(names):
        for number, name in enumerate(names, 1):
            harness.ip("-n", name, "addr", "add", f"192.0.2.{number}/24", "dev", "d0")
            harness.ip("-n", name, "link", "set", "d0", "arp", "on", "up")

    def apart(self, mtu):
        """Two namespaces whose d0 lead to `near` and `far` in a third one. Returns the first two, and the third."""
        names = self.spaces(mtu)
        middle = f"{names[0]}m"
        harness.ip("netns", "add", middle)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", middle], timeout=30 * harness.SLOW, check=False)
        harness.sysctl(middle, "net.ipv6.conf.default.disable_ipv6=1")
        harness.ip("-n", names[0], "link", "del", "d0")
        for name, end in zip(names, ("near", "far")):
            harness.ip("-n", name, "link", "add", "d0", "mtu", mtu, "type", "veth", "peer", "name", end, "mtu", mtu, "netns", middle)
            harness.ip("-n", middle, "link", "set", end, "arp", "off", "up")
        self.give_addresses(names)
        return names, middle

    def with_relay(self, mtu):
        """Two namespaces whose d0 are joined by lossy.py in a third one. Returns the first two, and the relay."""
        names, middle = self.apart(mtu)
        relay = subprocess.Popen(["ip", "netns", "exec", middle, harness.SOURCE / "tests/system/lossy.py", "near", "far"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(relay.stdout.close)
        self.addCleanup(relay.wait, 20)
        self.addCleanup(relay.stdin.close)
        self.assertEqual(relay.stdout.readline(), "relaying\n")
        return names, relay

    def pair(self, names, test, *args, server=("--interface", "d0"), client=("--interface", "d0"), server_eal=None,
             client_eal=None):
        return self.run_pair(test, server_eal or eal(), client_eal or eal(), *IDLE, "--verify", *args, server_args=server,
                             client_args=client, namespaces=names, address="10.199.0.1")

    def offload(self, name, on, feature="tx-udp-segmentation"):
        """UDP segmentation, or another offload, of the interface d0 in a namespace."""
        done = subprocess.run(["ip", "netns", "exec", name, sys.executable, __file__, "d0", feature, on],
                              capture_output=True, text=True, timeout=30 * harness.SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def launch(self, space, *args, before=(), eal_args=None, interface="d0"):
        """A daemon on an interface of a namespace. `before`: words before its command."""
        path = self.directory / f"veth-{next(_serial)}.sock"
        on = ["--interface", interface] if interface else []
        daemon = self.start([*before, UROCED, *(eal_args or eal()), "--", *on, "--socket", path, "--user", "", *args], space)
        daemon.space, daemon.socket = space, path
        return daemon

    def serve(self, *args, **kw):
        """The same, once it serves."""
        daemon = self.launch(*args, **kw)
        daemon.wait_for("serving uroce0", 20)
        return daemon

    def traffic(self, test, names, server, client, *args):
        """A benchmark between two ends, server and client, both running. They meet on c0."""
        common = ["-p", harness.free_port(), *harness.patience(test, args), *args]
        programs = []
        for end, host in ((server, ()), (client, (f"10.199.0.{names.index(server.space) + 1}",))):
            programs.append(self.start([harness.PERF, test, *end.eal, "--", *common, *end.args, *host], end.space))
        return programs

    def counters(self, socket_):
        shown = self.start([UROCE, "stat", "--json", "--all", "--interval", "0", "--socket", socket_])
        return harness.loads(self.finish(shown, 30))[0]["counters"]

    def counters_of(self, daemon):
        return self.counters(daemon.socket)

    def engine_metric(self, daemon, name):
        """A metric of each engine, in order."""
        shown = self.finish(self.start([UROCE, "stat", "--openmetrics", "--socket", daemon.socket]), 30)
        return [int(value) for value in re.findall(rf'^uroce_engine_{name}_total{{engine="\d+"}} (\d+)$', shown, re.MULTILINE)]


class DaemonCase(Case):
    """With addresses of their own, and any number of engines."""

    def daemons(self, names, count=1, user="", addresses=(("10.117.0.1/24",), ("10.117.0.2/24",))):
        """A daemon of `count` engines in each namespace: their sockets, and the programs."""
        sockets = [self.directory / f"{i}.sock" for i in range(2)]
        daemons = []
        for i, name in enumerate(names):
            daemons.append(self.start([harness.BUILD / "apps/uroced/uroced", *engines(count), "--", "--interface", "d0",
                                       "--address", ",".join(addresses[i]), "--socket", sockets[i], "--user", user],
                                      name))
        for daemon in daemons:
            daemon.wait_for("serving", 20)
        return sockets, daemons

    def through(self, names, sockets, *args):
        """Verified WRITEs from the second daemon to the first."""
        common = ["-p", harness.free_port(), *harness.PATIENT, "--daemon", "--verify", "-s", "65536", "-n", "200", *args]
        server = self.start([harness.PERF, "write_bw", "--", *common, "--socket", sockets[0]], names[0])
        client = self.start([harness.PERF, "write_bw", "--", *common, "--socket", sockets[1], "10.199.0.1"], names[1])
        self.finish_both(server, client)


if __name__ == "__main__":
    set_feature(sys.argv[1], sys.argv[2], sys.argv[3] == "on")
