"""A guest with two emulated cards of each model, driven by DPDK's poll-mode drivers, and a guest with rxe. A bridge joins all
cards and rxe's wire."""

import atexit
import dataclasses
import functools
import itertools
import json
import pathlib
import shlex
import shutil
import tempfile

import guest as guests
import harness
import peers
import qmp
import rig as rigs

WIRE_MTU = 9216
SOCKET = "/run/uroce.sock"
RXE = ("10.97.0.9", "fd97::9")
_serial = itertools.count()


@dataclasses.dataclass(frozen=True)
class Model:
    """An emulated card."""

    name: str  # of the case, and in the table
    device: str  # for QEMU
    options: str = ""
    netdev: str = ""
    largest: int = WIRE_MTU  # the MTU that its driver allows, at most uroce's own limit
    own_mtu: int = 1500  # without a setting
    queues: int = 1
    rss: bool = False  # frames are spread by the Toeplitz hash of UDP ports
    checksum: bool = False  # the card computes the IPv4 header's checksum
    kernel_driver: str = "virtio-pci"
    interrupts: bool = True  # for receiving, by vfio-pci


MODELS = (
    Model("virtio", "virtio-net-pci-non-transitional"),
    Model("virtio_legacy", "virtio-net-pci", ",disable-legacy=off,disable-modern=on"),
    Model("virtio_mtu", "virtio-net-pci", ",host_mtu=4200", largest=4200, own_mtu=4200),
    Model("virtio_queues", "virtio-net-pci", ",mq=on,vectors=10", ",queues=4", queues=4),
    Model("virtio_rss", "virtio-net-pci", ",mq=on,vectors=10,rss=on", ",queues=4", queues=4, rss=True),
    Model("e1000", "e1000", checksum=True, kernel_driver="e1000"),
    Model("e1000e", "e1000e", checksum=True, kernel_driver="e1000e"),
    Model("vmxnet3", "vmxnet3", largest=9000, queues=2, kernel_driver="vmxnet3"),
)
# These are on the virtual IOMMU of a q35 machine.
IOMMU_MODELS = (
    Model("virtio_iommu", "virtio-net-pci", ",disable-legacy=on,iommu_platform=on"),
    Model("e1000e_iommu", "e1000e", checksum=True, kernel_driver="e1000e", interrupts=False),
    Model("vmxnet3_iommu", "vmxnet3", largest=9000, queues=2, kernel_driver="vmxnet3"),
)
IOMMU = {"boot": "intel_iommu=on", "machine": ("-M", "q35", "-device", "intel-iommu")}
BY_NAME = {model.name: model for model in MODELS}


class Card:
    """One of the two cards of a model."""

    def __init__(self, model, number, side):
        self.model, self.side = model, side
        self.taken_out = False
        slot = 8 + 2 * number + side
        self.pci = f"0000:00:{slot:02x}.0"
        self.id = f"card{number}{'ab'[side]}"
        self.tap = f"t{number}{'ab'[side]}"
        self.addresses = (f"10.97.0.{20 + 2 * number + side}", f"fd97::{20 + 2 * number + side}")
        queues = " multi_queue" if model.queues > 1 and model.netdev else ""
        harness.ip("tuntap", "add", self.tap, "mode", "tap", *queues.split())
        harness.sysctl(None, f"net.ipv6.conf.{self.tap}.disable_ipv6=1")
        harness.ip("link", "set", self.tap, "mtu", WIRE_MTU, "txqueuelen", guests.QUEUE, "master", "wire", "up")
        self.netdev = f"tap,id={self.id}n,ifname={self.tap},script=no,downscript=no{model.netdev}"
        self.mac = f"52:54:00:97:{number:02x}:{side:02x}"
        self.device = f"{model.device},id={self.id},netdev={self.id}n,addr={slot:#x},mac={self.mac},romfile={model.options}"


class CardRig:
    """Everything runs from the constructor on, until `close`. `models`: those whose cards are in the guest. `first`: of the
    numbers of the models and the guest, so that two rigs fit on one bridge."""

    def __init__(self, models, boot="", machine=(), with_rxe=True, first=0):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-cards-"))
        atexit.register(self.close)
        self.running = []
        make_bridge()
        self.cards = {model.name: [Card(model, number, side) for side in (0, 1)] for number, model in enumerate(models, first)}
        hardware = ["-smp", "2", *machine]
        for card in itertools.chain(*self.cards.values()):
            hardware += ["-netdev", card.netdev, "-device", card.device]
        self.qmp_path = self.directory / "qmp"
        hardware += ["-qmp", f"unix:{self.qmp_path},server=on,wait=off"]
        self.guest = guests.Guest(self.directory, [], number=first + 1, module_lists=("modules", "card_modules"), memory=2560,
                                  hardware=hardware, boot=f"hugepages=512 {boot}")
        self.running.append(self.guest)
        self.rxe_guest = self.rxe = None
        if with_rxe:
            guests.make_tap("wire1", guests.MTU)
            harness.ip("link", "set", "wire1", "master", "wire")
            self.rxe_guest = guests.Guest(self.directory, [("wire1", f"{RXE[0]}/24", f"{RXE[1]}/64")], number=2)
            self.running.append(self.rxe_guest)
        for guest in (self.guest, self.rxe_guest):
            if guest:
                guest.wait_until_up(180)
        self.monitor = qmp.Monitor(self.qmp_path)

    def rxe_peer(self):
        """interop_peer on rxe, running since the first call."""
        if self.rxe is None:
            self.rxe = peers.GuestPeer(self.rxe_guest, "rxe", "rxe1", RXE)
        return self.rxe

    def connect_guests(self):
        """Programs at the two guests reach each other's `commands` address by TCP from now on."""
        harness.sysctl(None, "net.ipv4.ip_forward=1")
        for guest in (self.guest, self.rxe_guest):
            guest.run(f"ip route replace 10.98.0.0/16 via {guest.commands[0]}")

    def bind(self, card, driver):
        """Gives the card to one of the guest's drivers; "" leaves it without."""
        path = f"/sys/bus/pci/devices/{card.pci}"
        self.guest.run(f"[ ! -e {path}/driver ] || echo {card.pci} >{path}/driver/unbind; echo {driver} >{path}/driver_override"
                       + (f"; echo {card.pci} >/sys/bus/pci/drivers_probe" if driver else ""))

    def take_out(self, card):
        """Returns once the guest's kernel has let the card go."""
        card.taken_out = True
        self.monitor.call("device_del", id=card.id)
        self.guest.run(f"for i in $(seq 100); do [ -e /sys/bus/pci/devices/{card.pci} ] || exit 0; sleep 0.1; done; exit 1")

    def put_back(self, card):
        if card.taken_out:
            self.monitor.call("device_add", driver=card.model.device, id=card.id, netdev=f"{card.id}n", addr=card.pci[8:10],
                          mac=card.mac, romfile="", **options(card.model.options))
            self.guest.run(f"for i in $(seq 100); do [ -e /sys/bus/pci/devices/{card.pci} ] && exit 0; sleep 0.1; done; exit 1")
        card.taken_out = False

    def close(self):
        for program in reversed(self.running):
            program.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@functools.cache
def make_bridge():
    """At the first call."""
    harness.ip("link", "set", "lo", "up")
    harness.ip("link", "add", "wire", "type", "bridge", "mcast_snooping", "0")
    harness.sysctl(None, "net.ipv6.conf.wire.disable_ipv6=1")
    harness.ip("link", "set", "wire", "mtu", WIRE_MTU, "up")


def options(text):
    """QEMU's options of a device, as QMP takes them."""
    return {key: {"on": True, "off": False}.get(value, int(value) if value.isdigit() else value)
            for key, _, value in (item.partition("=") for item in text.split(",") if item)}


class Daemon:
    """uroced in the guest, on cards by their poll-mode drivers: device uroce0 on the first, uroce1 on the second."""

    def __init__(self, rig, cards, *args, eal=("-l", "0"), driver="uio_pci_generic", ready=True, socket=SOCKET):
        self.rig, self.cards, self.socket = rig, cards, socket
        for card in cards:
            rig.bind(card, driver)
        words = [*eal, *itertools.chain(*(("-a", card.pci) for card in cards)), "--huge-unlink", "-m", "400", "--"]
        for card in cards:
            words += ["--address", f"{card.addresses[0]}/24,{card.addresses[1]}/64"]
        self.log = f"/run/uroced-{next(_serial)}.log"
        self.serial = next(_serial)
        self.command = shlex.join([str(rigs.UROCED), *words, "--socket", socket, *map(str, args)])
        self.remote = rig.guest.start(f"cd /run; exec {self.command} 2>&1", 3600)
        self.peers = []
        if ready:
            self.remote.wait_for("serving uroce0", 60)

    def peer(self, number, before="exec"):
        """interop_peer on a device of this daemon."""
        made = peers.GuestPeer(self.rig.guest, "uroce", f"uroce{number}", self.cards[number].addresses, run=self.run(before))
        self.peers.append(made)
        return made

    def counters(self, number):
        out = self.rig.guest.run(f"{harness.BUILD}/apps/uroce/uroce stat uroce{number} --interval 0 --json --socket {self.socket}")
        return json.loads(out)[0]["counters"]

    def end(self, signal="TERM", code=0):
        """Ends it by a signal; its output."""
        for peer in self.peers:
            peer.kill()
        self.rig.guest.run(f"kill -{signal} {self.remote.pid}")
        if self.remote.finish() != code:
            raise AssertionError(f"exit code {self.remote.code}, not {code}: {self.remote}")
        return self.remote.output

    def run(self, before=""):
        """The beginning of a shell command in the guest that runs under uroce-run."""
        return f"TMPDIR=/run UROCE_SOCKET={self.socket} {before} {rigs.RUN}"
