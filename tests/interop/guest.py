"""A guest with Debian's kernel and rxe, on taps of the network namespace in which this runs."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

import harness
import kernel as kernels

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = pathlib.Path(os.environ.get("UROCE_KERNEL", harness.BUILD / "interop-kernel")).resolve()
# DPDK needs SSE4.2. Newer processors are slow when emulated: they have AVX, and a larger state that each switch of tasks saves.
CPU = "Nehalem,+rdrand"
# QEMU translates a program's code once for each address at which it lies. With the same addresses in each process (norandmaps) a
# program starts in a fifth of the time. The kernel's checks and its clearing of memory are emulated as well, so they are off.
# The kernel's check of its timer fails, and ends the guest, where a busy machine keeps QEMU waiting meanwhile.
BOOT = ("console=ttyS0 loglevel=4 panic=-1 oops=panic no_timer_check norandmaps mitigations=off init_on_alloc=0 hardened_usercopy=off "
        "apparmor=0")
# The host's and the guest's address for commands and for what programs exchange; a second guest has others.
COMMANDS = ("10.98.0.1", "10.98.0.2")
COMMAND_PORT = 7000
MTU = 4200  # of the wires: path MTU 4096 and headers
QUEUE = 2000  # frames that a tap holds until the guest takes them: 1 MiB of UC at path MTU 1024 fits


def linux():
    """The version of the guest's kernel, as (6, 12)."""
    return tuple(int(part) for part in (KERNEL / "release").read_text().split(".")[:2])


def archive(entries):
    """A cpio archive in the kernel's format: (name, mode, bytes) each."""
    out = bytearray()

    def add(number, name, mode, data):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        out.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        out.extend(bytes(-len(out) % 4) + data)
        out.extend(bytes(-len(out) % 4))

    for number, (name, mode, data) in enumerate(entries, 1):
        add(number, name, mode, data)
    add(0, "TRAILER!!!", 0, b"")
    return bytes(out)


def initramfs(commands, wires, modules, init):
    """The guest's first file system. `wires` has (IPv4, IPv6) of each. `init` is its first program."""
    addresses = [("eth0", f"{commands}/24", "")]
    addresses += [(f"eth{n}", *wire) for n, wire in enumerate(wires, 1)]
    entries = [(name, 0o040755, b"") for name in ("bin", "dev", "host", "modules", "proc", "sys")]
    entries.append(("bin/busybox", 0o100755, pathlib.Path(shutil.which("busybox")).read_bytes()))
    entries += [(f"modules/{name}", 0o100644, (KERNEL / name).read_bytes()) for name in modules]
    entries.append(("modules/list", 0o100644, "".join(name + "\n" for name in modules).encode()))
    entries.append(("addresses", 0o100644, "".join(" ".join(line) + "\n" for line in addresses).encode()))
    entries.append(("init", 0o100755, init.read_bytes()))
    entries.append(("agent", 0o100755, (HERE / "agent.sh").read_bytes()))
    return archive(entries)


def modules(*lists):
    return [name for one in lists for name in (KERNEL / one).read_text().split()]


class Guest:
    """The running guest. `wires` is a list of (tap, IPv4, IPv6); they are eth1, eth2, ... and rxe1, rxe2, ... in it.
    `number` tells guests of one namespace apart. `hardware`: more arguments of QEMU, such as cards. `boot`: more of the
    kernel's."""

    INIT = HERE / "init.sh"
    ROOT = "path=/,readonly=on"  # what the guest has of this machine

    def __init__(self, directory, wires, number=0, module_lists=("modules",), memory=512, hardware=(), boot=""):
        self.console = directory / f"console{number}.log"
        self.commands = tuple(address.replace(".98.0.", f".98.{number}.") for address in COMMANDS)
        image = directory / f"initramfs{number}"
        image.write_bytes(initramfs(self.commands[1], [wire[1:] for wire in wires], modules(*module_lists), self.INIT))
        commands = f"commands{number}"
        make_tap(commands, 1500)
        harness.ip("addr", "add", f"{self.commands[0]}/24", "dev", commands)
        # Without any address of IPv6 in the kernel, getaddrinfo() knows none either, and programs cannot be given one.
        harness.sysctl(None, f"net.ipv6.conf.{commands}.disable_ipv6=0")
        harness.ip("addr", "add", f"fd98:{number}::1/64", "dev", commands, "nodad")
        command = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", str(memory),
            "-accel", os.environ.get("UROCE_ACCEL", "tcg"), "-cpu", CPU, "-serial", f"file:{self.console}",
            "-kernel", KERNEL / kernels.KERNEL, "-initrd", image,
            "-append", f"{BOOT} {boot}",
            "-fsdev", f"local,id=root,{self.ROOT},security_model=none,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]
        # No offloads: the guest's frames are whole and checked, as on a wire.
        plain = "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off"
        for port, tap in enumerate([commands] + [wire[0] for wire in wires]):
            size = f",host_mtu={MTU}" if port else ""
            command += ["-netdev", f"tap,id=n{port},ifname={tap},script=no,downscript=no",
                        "-device", f"virtio-net-pci,netdev=n{port},mac=52:54:00:12:{34 + number}:{port:02x},romfile=,{plain}{size}"]
        self.program = harness.Program(command + list(hardware), directory)

    def wait_until_up(self, seconds):
        limit = time.monotonic() + seconds * harness.SLOW
        while "guest is ready" not in self.said() or not self.serves():
            if self.program.process.poll() is not None or time.monotonic() > limit:
                raise AssertionError(f"the guest did not come up: {self.program}\n{self.said()}")
            time.sleep(0.05)

    def serves(self):
        """Whether commands are taken: that begins a moment after the guest has said that it is ready."""
        try:
            self.run("true")
        except ConnectionRefusedError:
            return False
        return True

    def said(self):
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def start(self, command, seconds):
        return Remote(self.commands[1], command, seconds)

    def run(self, command, seconds=20, code=0):
        """Output of a command that must end with that exit code."""
        remote = self.start(command, seconds)
        if remote.finish() != code:
            raise AssertionError(f"exit code {remote.code}, not {code}: {remote}")
        return remote.output

    def kill(self):
        self.program.kill()


class Remote:
    """A command running in the guest, at most `seconds`."""

    def __init__(self, address, command, seconds):
        self.command = command
        self.limit = seconds * harness.SLOW
        self.output, self.code, self._rest = "", None, b""
        self.socket = socket.create_connection((address, COMMAND_PORT), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(self.limit + 10)
        self.socket.sendall(f"{self.limit:.0f} echo $$; {command}\n".encode())
        self.pid = int(self.read_line())  # of the shell, and of the program where the command is `exec program`

    def send_line(self, line):
        self.socket.sendall(line.encode() + b"\n")

    def read_line(self):
        while b"\n" not in self._rest:
            more = self.socket.recv(65536)
            if not more:
                raise AssertionError(f"the guest's command ended: {self}")
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode(errors="replace")

    def wait_for(self, text, seconds):
        """Returns once a line with `text` was printed; `seconds` is the longest silence before that."""
        lines = []
        self.socket.settimeout(seconds * harness.SLOW)
        while not lines or text not in lines[-1]:
            try:
                lines.append(self.read_line())
            except (AssertionError, TimeoutError):
                raise AssertionError("\n".join([f"it did not say '{text}': {self}", *lines])) from None
        self.socket.settimeout(self.limit + 10)
        self._rest = "".join(line + "\n" for line in lines).encode() + self._rest

    def has_ended(self):
        """Whether the command has ended. Its text has all that it has said so far."""
        self.socket.setblocking(False)
        try:
            while more := self.socket.recv(65536):
                self._rest += more
            return True
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(self.limit + 10)

    def finish(self):
        """Exit code, once the command has ended by itself or at its limit."""
        parts = [self._rest]
        while more := self.socket.recv(65536):
            parts.append(more)
        self.socket.close()
        output, _, code = b"".join(parts).decode(errors="replace").rpartition("\nexit code ")
        self.output, self.code = output, int(code or -1)
        return self.code

    def close(self):
        self.socket.close()

    def __str__(self):
        return f"in the guest: {self.command}\n(exit code {self.code})\n{self.output}{self._rest.decode(errors='replace')}"


def make_tap(name, mtu):
    """A tap for QEMU. The kernel of this side says nothing on it by itself."""
    harness.ip("tuntap", "add", name, "mode", "tap")
    harness.sysctl(None, f"net.ipv6.conf.{name}.disable_ipv6=1")
    harness.ip("link", "set", name, "mtu", mtu, "txqueuelen", QUEUE, "up")
