"""Parts that the interop tests share: peers at both ends, and the results for the tables in README.md."""

import json

import harness
import peers
import rig as rigs

DIRECTIONS = ("uroce_to_rxe", "rxe_to_uroce")  # requester and responder
_results = []
_peers = {}


def record(table, *values):
    """Something that worked, for the table."""
    _results.append([table, *values])


def save_results(name):
    (harness.BUILD / name).write_text(json.dumps(_results, indent=0))


def both_peers(wire):
    """interop_peer at the host's and at the guest's end, running since the first test that asked."""
    if wire not in _peers:
        rig = rigs.rig()
        guest = peers.GuestPeer(rig.guest, "rxe", f"rxe{wire}", rigs.addresses(wire, "guest"))
        rig.running.append(guest)
        _peers[wire] = (peers.HostPeer(rig, wire), guest)
    return _peers[wire]


class Verbs:
    """For test cases that use peers."""

    def pair(self, *args, **kw):
        made = peers.pair(*args, **kw)
        for side in made:
            self.addCleanup(side.close)
        return made

    def region(self, peer, length, *access):
        return peer.region(length, *access)

    def assert_success(self, completions, **fields):
        """One completion, successful and with these fields; returns it."""
        self.assertEqual(len(completions), 1, completions)
        self.assertEqual(completions[0]["status"], "success")
        self.assertEqual({key: completions[0].get(key) for key in fields}, fields)
        return completions[0]


class RigCase(harness.Case):
    """For cases on the rig that all cases of a suite share."""

    module_lists = ("modules",)
    kind = rigs.Rig

    def setUp(self):
        super().setUp()
        self.rig = rigs.rig(self.kind, module_lists=self.module_lists)
        self.addCleanup(self.check_rig)

    def check_rig(self):
        """After every test the daemon and the guest are alive. Peers that broke are not used again."""
        for program in (self.rig.daemon, self.rig.guest.program):
            self.assertIsNone(program.process.poll(), f"it ended: {program}\n{self.rig.guest.said()}")


class Case(Verbs, RigCase):
    wire = 1

    def setUp(self):
        super().setUp()
        self.host, self.guest = both_peers(self.wire)

    def sides(self, direction):
        """Requester and responder."""
        return (self.host, self.guest) if direction == DIRECTIONS[0] else (self.guest, self.host)
