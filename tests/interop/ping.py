"""`uroce ping` to rxe: the connection manager of Linux answers, its IP answers echoes, and nothing else listens. And `uroce doctor`
beside rxe, in the guest."""

import json
import subprocess

import guest as guests
import harness
import interop
import rig as rigs

CLI = harness.BUILD / "apps" / "uroce" / "uroce"


class Ping(interop.RigCase):
    def ping(self, address, code=0):
        done = subprocess.run([CLI, "ping", address, "--count", "3", "--socket", self.rig.env["UROCE_SOCKET"]],
                              capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_rxe_answers_for_its_connection_manager(self):
        """On a port of net_af_packet, and on one of kernel interfaces."""
        for wire, device in ((1, "uroce0"), (3, "uroce2")):
            for address in rigs.addresses(wire, "guest")[:2]:
                with self.subTest(address):
                    said = self.ping(address)
                    self.assertIn(f"{address} by device {device}", said)
                    self.assertRegex(said, "UD, connection manager: 3 of 3 answered")
                    self.assertIn("RC: nobody answers (it serves no such port)", said)
                    self.assertIn("path MTU 4096, by echoes of IP as long as such packets: 3 of 3 answered", said)
                    self.assertIn("loss recovery: go-back-n with this peer, unless it is a uroce", said)

    def test_rxe_with_a_smaller_mtu(self):
        """Its kernel sends the answers to long echoes in fragments. net_af_packet would put them together."""
        self.rig.guest.run("busybox ip link set eth3 mtu 1500")
        self.addCleanup(self.rig.guest.run, f"busybox ip link set eth3 mtu {guests.MTU}")
        for address in rigs.addresses(3, "guest")[:2]:
            with self.subTest(address):
                said = self.ping(address, 1)
                self.assertRegex(said, "UD, connection manager: 3 of 3 answered")
                self.assertIn("echoes as long as packets of 4096 bytes do not come back, and ones of 1024 do", said)

    def test_the_doctor_finds_rxe(self):
        found = json.loads(self.rig.guest.run(f"{CLI} doctor --json", 60, code=1))
        rxe = [one for one in found if one["topic"] == "rxe"]
        self.assertEqual(len(rxe), len(rigs.WIRES), rxe)
        for number, one in enumerate(sorted(rxe, key=lambda one: one["text"]), 1):
            self.assertIn(f"has rxe{number} on eth{number} and takes UDP port 4791 there", one["text"])
            self.assertIn(f"rdma link delete rxe{number}", one["remedy"])
