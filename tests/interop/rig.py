"""A guest with rxe and a daemon of uroce, joined by two wires in a network namespace of their own: `wire1` is the guest's tap
itself; `wire2` goes through a relay that can lose, repeat and reorder frames. Both have ports of net_af_packet. `wire3` is a tap
with uroce's own port on kernel interfaces (net_uroce_kif). The daemon leaves `wire4` to programs that have a stack of their own."""

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import guest as guests
import harness
import kernel as kernels
from harness import BUILD, Program

UROCED = BUILD / "apps" / "uroced" / "uroced"
RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
PEER = BUILD / "tests" / "interop" / "interop_peer"
INSIDE = "UROCE_INTEROP_INSIDE"
DAEMON_WIRES = (1, 2, 3)
WIRES = (*DAEMON_WIRES, 4)
# A frame of 4200 bytes and the ring's own header need slots of 8 KiB. While the daemon waits for a CPU, 1 MiB of UC at path MTU
# 1024 fits, and other frames beside it. Frames through the qdisc are seen in captures.
RING = "framesz=8192,blocksz=8192,framecnt=2048,qdisc_bypass=0"


def addresses(wire, side):
    """IPv4 and IPv6 address of the host's or the guest's end of a wire, and their GIDs."""
    number = {"host": 1, "guest": 2}[side]
    return f"10.99.{wire}.{number}", f"fd99:{wire}::{number}"


def missing():
    """Why this machine cannot run a guest, or nothing."""
    if os.geteuid() != 0:
        return "taps and namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "this machine has no tap devices"
    for program in ("qemu-system-x86_64", "busybox", "unshare", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not installed; config/packages.txt names its package"
    if not kernels.complete(guests.KERNEL):
        return f"there is no kernel for the guest in {guests.KERNEL}; tests/interop/kernel.py downloads one"
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=30, check=False).returncode:
        return "this machine allows no network namespaces"
    return None


def enter_namespace():
    """Starts the program again in a network namespace without a name, which ends with the last process in it."""
    if os.environ.get(INSIDE) != "1":
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


class Rig:
    """Everything runs from the constructor on, until `close`. `module_lists`: what the guest's kernel loads (kernel.py)."""

    as_user = ()  # words before a command of the host

    def __init__(self, module_lists=("modules",)):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-interop-"))
        atexit.register(self.close)
        self.running = []
        self.env = {"UROCE_SOCKET": str(self.directory / "socket")}
        harness.ip("link", "set", "lo", "up")
        for wire in WIRES:
            guests.make_tap(f"wire{wire}", guests.MTU)
        wires = [(f"wire{wire}", *(f"{address}/{bits}" for address, bits in zip(addresses(wire, "guest"), (24, 64))))
                 for wire in WIRES]
        self.guest = guests.Guest(self.directory, wires, module_lists=module_lists)
        self.running.append(self.guest)
        self.capture(os.environ.get("UROCE_CAPTURE"))
        self.relay = self.make_relay()
        self.daemon = self.make_daemon()
        self.daemon.wait_for("serving uroce0", 30)
        self.guest.wait_until_up(120)

    def capture(self, path):
        """Frames of both wires, as the guest sees them, go to a file for tshark."""
        if path:
            self.running.append(Program(["dumpcap", "-q", "-P", "-i", "wire1", "-i", "wire2", "-w", path], self.directory))
            self.running[-1].wait_for("File:", 20)

    def make_relay(self):
        harness.ip("link", "add", "far2", "mtu", guests.MTU, "type", "veth", "peer", "name", "near2", "mtu", guests.MTU)
        for name in ("far2", "near2"):
            harness.sysctl(None, f"net.ipv6.conf.{name}.disable_ipv6=1")
            harness.ip("link", "set", name, "arp", "off", "txqueuelen", guests.QUEUE, "up")
        relay = subprocess.Popen([harness.SOURCE / "tests" / "system" / "lossy.py", "wire2", "far2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.running.append(relay)
        if relay.stdout.readline() != "relaying\n":
            raise AssertionError("the relay does not run")
        return relay

    def set_faults(self, **faults):
        """Sets the faults of RoCE frames on wire 2 from now on. Returns how many of each there were since the last call."""
        self.relay.stdin.write(json.dumps(faults) + "\n")
        self.relay.stdin.flush()
        return json.loads(self.relay.stdout.readline())

    def make_daemon(self):
        config = self.directory / "uroced.toml"
        tables = [[f"{address}/{bits}" for address, bits in zip(addresses(wire, "host"), (24, 64))] for wire in DAEMON_WIRES]
        texts = [f"[[device]]\naddresses = {json.dumps(table)}\nmtu = {guests.MTU}\n" for table in tables]
        texts[2] += 'interface = "wire3"\n'
        config.write_text("".join(texts))
        ports = [f"--vdev=net_af_packet{number},iface={name},{RING}" for number, name in enumerate(("wire1", "near2"))]
        daemon = Program([UROCED, *harness.eal(*ports), "--", "--config", config, "--socket", self.directory / "socket"],
                         self.directory)
        self.running.append(daemon)
        return daemon

    @staticmethod
    def device(wire):
        """The daemon's device on a wire."""
        return f"uroce{wire - 1}"

    def on_host(self, *command, env=None):
        """A program under uroce-run, started."""
        program = Program([*self.as_user, RUN, *command], self.directory, env={**self.env, **{k: str(v) for k, v in (env or {}).items()}})
        self.running.append(program)
        return program

    def close(self):
        for program in reversed(self.running):
            program.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


_rig = None


def rig(kind=Rig, **settings):
    """The one that all tests of this process share: a guest takes seconds to boot. The first call's arguments hold."""
    global _rig
    if _rig is None:
        _rig = kind(**settings)
    return _rig
