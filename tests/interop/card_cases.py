"""The cases of every emulated card: operations against the same card and against rxe, programs, VLANs, engines, faults."""

import itertools
import time

import cards
import harness
import interop
import matrix
import peers
import preload
import rig as rigs

ORDERED = f"LD_PRELOAD={preload.TELLS}"  # for the end of rping
LISTENS = "/run/listens"  # is there when rping's server listens
TOLD = f"[ -e {LISTENS} ]"
PEER_MTU = 1024  # the path MTU of Ethernet's own
# Between two cards of a kind, and between a card and rxe.
OPERATIONS = matrix.OPERATIONS
WITH_RXE = (("RC", "SEND"), ("RC", "WRITE_IMM"), ("RC", "READ"), ("RC", "CMP_SWAP"), ("UC", "WRITE"), ("UD", "SEND"))

_rig = None
models = cards.MODELS  # whose cards the guest has


def rig():
    """The one that all tests of this process share."""
    global _rig
    if _rig is None:
        _rig = cards.CardRig(models)
    return _rig


def listens_on(port):
    """A condition of the guest's shell."""
    return f"grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"


def await_in_guest(condition):
    rig().guest.run(f"until {condition}; do sleep 0.05; done", 60)


def sizes(kind, op, mtu):
    if op in ("FETCH_ADD", "CMP_SWAP"):
        return (8,)
    return (1, mtu) if kind == "UD" else (1, mtu + 1, 65536)


class Case(matrix.Transfers, harness.Case):
    """For tests that start a daemon on cards."""

    def daemon_on(self, where, model, *args, number=2, **kw):
        daemon = cards.Daemon(where, where.cards[model.name][:number], *args, **kw)
        self.addCleanup(self.end_quietly, daemon)
        return daemon

    def end_quietly(self, daemon):
        """After a case that has not ended its daemon itself."""
        for peer in daemon.peers:
            peer.kill()
        guest = daemon.rig.guest
        guest.run(f"kill -KILL {daemon.remote.pid} 2>/dev/null || true")
        self.assertIsNone(guest.program.process.poll(), guest.said()[-2000:])

    def transfer_all(self, a, b, mtu, operations=OPERATIONS, family=4):
        for kind, op in operations:
            one, two = self.pair(a, b, kind, mtu, family=family)
            self.run_operation(one, two, op, sizes(kind, op, mtu))

    def assert_nothing_resent(self, daemon):
        """No packet was sent again on a wire that loses nothing."""
        for number in range(len(daemon.cards)):
            counters = daemon.counters(number)
            resent = {name: value for name, value in counters.items() if value and
                      name in ("retransmitted", "timeouts", "probes", "sequence_naks")}
            self.assertEqual(resent, {})

    # --- The cases ------------------------------------------------------------------------------------------------


class Cards(Case):
    """A method per case and card; see `add_cases`. A case is a method `on_...` that takes the model."""

    def daemon(self, model, *args, **kw):
        return self.daemon_on(rig(), model, *args, **kw)

    def on_its_own_mtu(self, model):
        """Without a setting: the MTU that the driver begins with."""
        daemon = self.daemon(model)
        path_mtu = 4096 if model.own_mtu >= 4200 else 1024
        self.transfer_all(daemon.peer(0), daemon.peer(1), path_mtu)
        self.assertIn(f"MTU {model.own_mtu}, path MTU {path_mtu};", daemon.end())
        interop.record("cards", model.name, "own MTU", model.own_mtu)

    def on_its_largest_mtu(self, model):
        daemon = self.daemon(model, "--port-mtu", model.largest)
        a, b = daemon.peer(0), daemon.peer(1)
        self.transfer_all(a, b, 4096)
        self.transfer_all(b, a, 2048, WITH_RXE, family=6)
        self.assertIn(f"MTU {model.largest}, path MTU 4096;", daemon.end())
        interop.record("cards", model.name, "largest MTU", model.largest)

    def with_rxe(self, model):
        daemon = self.daemon(model, number=1)
        ours, rxe = daemon.peer(0), rig().rxe_peer()
        self.transfer_all(ours, rxe, PEER_MTU, WITH_RXE)
        self.transfer_all(rxe, ours, PEER_MTU, WITH_RXE, family=6)
        interop.record("cards", model.name, "rxe")

    def on_programs(self, model):
        daemon = self.daemon(model)
        address = daemon.cards[0].addresses[0]
        tcp = listens_on(18515)
        for name, server, client, ready in (
                ("ibv_rc_pingpong", "ibv_rc_pingpong -d uroce0 -g 0 -c -n 50", "ibv_rc_pingpong -d uroce1 -g 0 -c -n 50 127.0.0.1", tcp),
                ("ib_write_bw", "ib_write_bw -d uroce0 -x 0 -F -n 50 -u 18", "ib_write_bw -d uroce1 -x 0 -F -n 50 -u 18 127.0.0.1", tcp),
                ("rping", f"rping -s -C 10 -V -a {address}", f"rping -c -C 10 -V -a {address}", TOLD)):
            with self.subTest(program=name):
                self.run_programs(daemon, server, client, ready)
                interop.record("cards", model.name, name)

    def run_programs(self, daemon, server, client, ready):
        rig().guest.run(f"rm -f {LISTENS}")
        listening = rig().guest.start(f"UROCE_TEST_LISTENS={LISTENS} {daemon.run(ORDERED)} {server}", 120)
        await_in_guest(ready)
        calling = rig().guest.start(f"{daemon.run(ORDERED)} {client}", 120)
        both = calling.finish(), listening.finish()
        self.assertEqual(both, (0, 0), f"{calling}\n{listening}")

    def on_a_vlan(self, model):
        daemon = self.daemon(model, "--vlan", 7)
        self.transfer_all(daemon.peer(0), daemon.peer(1), 1024, WITH_RXE)
        interop.record("cards", model.name, "VLAN")

    def on_two_engines(self, model):
        """Frames that land on the other engine's queue are handed over."""
        daemon = self.daemon(model, eal=("--lcores=0@0,1@0,2@1",))
        a, b = daemon.peer(0), daemon.peer(1)
        for _ in range(3):
            self.transfer_all(a, b, 1024, (("RC", "SEND"), ("RC", "READ"), ("UD", "SEND_IMM")))
        if model.queues == 1:  # several queues may be the right ones by chance
            self.assertGreater(daemon.counters(0)["port_steered"], 0)
        if model.rss:
            self.sends_to_the_right_engine(daemon, a, b)
        said = daemon.end()
        self.assertIn(f"{min(model.queues, 2)} queue(s)", said)
        self.assertEqual("(RSS), which uroce peers choose" in said, model.rss, said)
        interop.record("cards", model.name, "two engines")

    def sends_to_the_right_engine(self, daemon, a, b):
        """The card hands over no frame of a connection once its peers have met."""
        pairs = [self.pair(a, b, "RC", 1024) for _ in range(4)]
        for one, two in pairs:
            self.run_operation(one, two, "SEND", (1,))
        before = [daemon.counters(number)["port_steered"] for number in (0, 1)]
        for one, two in pairs:
            self.run_operation(one, two, "SEND", (65536,))
            self.run_operation(one, two, "READ", (65536,))
        self.assertEqual([daemon.counters(number)["port_steered"] for number in (0, 1)], before)

    def on_link_down_and_up(self, model):
        daemon = self.daemon(model)
        a, b = daemon.peer(0), daemon.peer(1)
        one, two = self.pair(a, b, "RC", 1024)
        self.run_operation(one, two, "SEND", (1000,))
        for up in (False, True):
            rig().monitor.call("set_link", name=daemon.cards[0].id, up=up)
            self.wait_for_event(a, "port active" if up else "port error")
        self.run_operation(one, two, "SEND", (1000,))
        interop.record("cards", model.name, "link down and up")

    def wait_for_event(self, peer, text):
        limit = time.monotonic() + 20 * harness.SLOW
        seen = []
        while text not in seen and time.monotonic() < limit:
            seen += peer.events(1)
        self.assertIn(text, seen)

    def on_a_daemon_that_is_killed(self, model):
        first = self.daemon(model)
        first.peer(0)
        first.end("KILL", code=137)
        again = self.daemon(model)
        self.transfer_all(again.peer(0), again.peer(1), 1024, WITH_RXE)
        interop.record("cards", model.name, "killed and started again")

    def on_a_card_that_is_taken_out(self, model):
        daemon = self.daemon(model)
        card = daemon.cards[0]
        a, b = daemon.peer(0), daemon.peer(1)
        one, two = self.pair(a, b, "RC", 1024, timeout=12, retry_cnt=2)
        rig().take_out(card)
        self.addCleanup(rig().put_back, card)
        self.wait_for_event(a, "local catastrophic error")
        source, sink = self.region(a, 100), self.region(b, 100, "write")
        one.post("WRITE", source, 100, 0, sink)
        self.assertEqual(one.sent(seconds=20)[0]["status"], "transport retry counter exceeded")
        self.assertIn(f"port {card.pci}", daemon.end())
        rig().put_back(card)
        again = self.daemon(model)
        self.transfer_all(again.peer(0), again.peer(1), 1024, (("RC", "SEND"),))
        interop.record("cards", model.name, "taken out and put back")

    def on_uroce_perf(self, model):
        """The stack in the process of the benchmark, as a DPDK application."""
        one, two = rig().cards[model.name]
        for card in (one, two):
            rig().bind(card, "uio_pci_generic")
        for test in ("write_bw", "read_bw", "send_bw", "atomic_bw"):
            def command(card, peer="", test=test):
                return (f"cd /run; {harness.PERF} {test} -l {card.side} -a {card.pci} --huge-unlink -m 300 -- -n 200 -s "
                        f"{'8' if test == 'atomic_bw' else '65536'} --verify --idle sleep -p 18600 --address "
                        f"{card.addresses[0]}/24 {peer}")
            server = rig().guest.start(command(one), 120)
            await_in_guest(listens_on(18600))
            client = rig().guest.start(command(two, "127.0.0.1"), 120)
            codes = client.finish(), server.finish()
            self.assertEqual(codes, (0, 0), f"{client}\n{server}")
        interop.record("cards", model.name, "uroce_perf")


class BadInput(harness.Case):
    """Each is refused with a sentence that says what to do, and a non-zero exit."""

    def refused(self, model, *args, driver="uio_pci_generic", number=1, **kw):
        daemon = cards.Daemon(rig(), rig().cards[model][:number], *args, driver=driver, ready=False, **kw)
        self.assertNotEqual(daemon.remote.finish(), 0, str(daemon.remote))
        return daemon.remote.output

    def test_an_mtu_that_the_card_cannot_carry(self):
        said = self.refused("virtio_mtu", "--port-mtu", 9000)
        for part in ("net_virtio", "9000", "4200"):
            self.assertIn(part, said)

    def test_a_card_of_the_kernel(self):
        card = rig().cards["e1000e"][0]
        said = self.refused("e1000e", driver="e1000e")
        for part in (card.pci, "e1000e", "dpdk-devbind.py"):
            self.assertIn(part, said)

    def test_a_card_without_a_driver(self):
        self.assertIn("dpdk-devbind.py", self.refused("e1000e", driver=""))

    def test_a_card_that_is_not_there(self):
        card = rig().cards["e1000e"][0]
        daemon = cards.Daemon(rig(), [], "--address", "10.1.0.1/24", eal=("-l", "0", "-a", "0000:00:1f.7"), ready=False)
        self.assertNotEqual(daemon.remote.finish(), 0)
        self.assertIn("there is no PCI device 0000:00:1f.7", daemon.remote.output)
        self.assertTrue(card.pci)

    def test_no_hugepages(self):
        said = self.refused("e1000e", eal=("-l", "0", "--no-huge"))
        for part in ("uio_pci_generic", "nr_hugepages"):
            self.assertIn(part, said)

    def test_two_daemons_for_one_card(self):
        daemon = cards.Daemon(rig(), rig().cards["e1000e"][:1])
        card = daemon.cards[0]
        second = rig().guest.start(f"cd /run; exec {rigs.UROCED} -l 0 -a {card.pci} --huge-unlink -m 200 -- --address 10.1.0.1/24 "
                                   "--socket /run/other.sock 2>&1", 60)
        self.assertNotEqual(second.finish(), 0)
        self.assertIn(f"card {card.pci} is used by another process", second.output)
        daemon.end()


class Dmabufs(Case):
    """Memory of dma-bufs. Debian 12's own kernel has neither exporter; newer ones have both."""

    MODEL = cards.BY_NAME["virtio"]
    ORDINARY = "exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs"
    NODES = {"udmabuf": "/dev/udmabuf", "dma_heap": "/dev/dma_heap/system"}

    def daemon_for(self, memory):
        self.memory, node = memory, self.NODES[memory]
        if rig().guest.start(f"chmod 666 {node}", 20).finish() != 0:
            self.skipTest(f"the guest's kernel has no {node}; see README.md for a newer one")
        return self.daemon_on(rig(), self.MODEL)

    def region(self, peer, length, *access):
        return peer.region(length, *access, memory=self.memory)

    def test_of_udmabuf(self):
        """The bytes are compared in the memfd."""
        daemon = self.daemon_for("udmabuf")
        self.transfer_all(daemon.peer(0), daemon.peer(1), PEER_MTU)
        daemon.end()
        interop.record("cards", self.MODEL.name, "udmabuf")

    def test_of_udmabuf_by_an_ordinary_user(self):
        daemon = self.daemon_for("udmabuf")
        self.transfer_all(daemon.peer(0, self.ORDINARY), daemon.peer(1, self.ORDINARY), PEER_MTU,
                          (("RC", "WRITE"), ("RC", "READ")))
        daemon.end()

    def test_of_another_exporter(self):
        """Root may, and others may not."""
        daemon = self.daemon_for("dma_heap")
        ordinary = daemon.peer(0, self.ORDINARY)
        with self.assertRaisesRegex(peers.Refused, "ibv_reg_dmabuf_mr: Permission denied"):
            self.region(ordinary, 4096)
        self.transfer_all(daemon.peer(0), daemon.peer(1), PEER_MTU, (("RC", "WRITE"), ("RC", "READ")))
        daemon.end()


CASES = [name for name in vars(Cards) if name.startswith(("on_", "with_"))]


def add_cases(names, models):
    for name, model in itertools.product(names, models):
        def case(self, name=name, model=model):
            getattr(self, name)(model)
        setattr(Cards, f"test_{model.name}_{name}", case)
