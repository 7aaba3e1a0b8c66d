#!/usr/bin/env python3
"""Ports on interfaces that the kernel keeps (net_uroce_kif), on a veth pair between two namespaces."""

import json
import os
import subprocess
import time
import unittest

import harness
import veth
from harness import IDLE, eal
from veth import TESTS, engines, rename, renew

# The relay is slower than the ends. Beyond a few messages under way, timeouts would only tell how slow.
CALM = ("-t", "8", "-u", "16")
# Chances of a frame, in lossy.py. Go-Back-N sends all again that follows a lost frame, and gives up where most of that fails too.
FAULTS = {"selective": ({"lose": 0.01}, {"repeat": 0.02, "delay": 0.01}, {"lose": 0.01, "repeat": 0.01, "delay": 0.01}),
          "go-back-n": ({"lose": 0.003}, {"repeat": 0.01, "delay": 0.003}, {"lose": 0.002, "repeat": 0.01, "delay": 0.002})}


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Interface(veth.DaemonCase):
    def test_every_operation_at_every_mtu(self):
        for mtu in (1500, 4200, 9000):
            names = self.spaces(mtu)
            for test, args in TESTS:
                with self.subTest(mtu=mtu, test=test):
                    self.pair(names, test, *args)

    def test_ipv6(self):
        names = self.spaces(1500)
        for test, args in TESTS:
            self.pair(names, test, "-x", "0", *args, server=("--interface", "d0", "--address", "2001:db8::1/64"),
                      client=("--interface", "d0", "--address", "2001:db8::2/64"))

    def test_a_vlan(self):
        names = self.spaces(1500)
        for udp_segmentation in ("on", "off"):
            for name in names:
                self.offload(name, udp_segmentation)
            for test, args in TESTS:
                with self.subTest(udp_segmentation=udp_segmentation, test=test):
                    self.pair(names, test, "--vlan", "7", *args)

    def test_several_engines(self):
        names = self.spaces(1500)
        self.pair(names, "write_bw", "-q", "16", "-s", "65536", "-n", "100", server_eal=engines(2), client_eal=engines(3))

    def test_without_the_right_to_administer(self):
        names = self.spaces(1500)
        command = ["setpriv", "--bounding-set=-net_admin,-sys_admin", harness.PERF, "write_bw"]
        own = [*IDLE, *harness.PATIENT, "--verify", "--interface", "d0", "-s", "65536", "-n", "200", "-p", harness.free_port()]
        server = self.start([*command, *eal(), "--", *own], names[0])
        client = self.start([*command, *eal(), "--", *own, "10.199.0.1"], names[1])
        self.finish(client, 60)
        self.finish(server, 60)

    def test_an_interface_without_udp_segmentation(self):
        # The kernel cuts super-frames up on the way out, as it does for cards that cannot.
        names = self.spaces(1500)
        for name in names:
            self.offload(name, "off")
        for test, args in TESTS:
            self.pair(names, test, *args)

    def test_a_peer_with_af_packet(self):
        # That driver takes no super-frame. It is the peer's card, or the kernel, that cuts them up for it.
        names = self.spaces(4200)
        other = eal("--vdev=net_af_packet0,iface=d0,framesz=8192,blocksz=8192,framecnt=512")
        self.offload(names[1], "off")
        for test, args in TESTS:
            self.pair(names, test, *args, server=("--address", "kernel"), server_eal=other)
        self.offload(names[1], "on")
        single = eal("--vdev=net_uroce_kif0,iface=d0,super_frames=no")
        for test, args in TESTS:
            self.pair(names, test, *args, server=("--address", "kernel"), server_eal=other, client=(),
                      client_eal=single)

    def test_a_bridge(self):
        """Two containers of docker are joined like this."""
        names, middle = self.apart(1500)
        harness.ip("-n", middle, "link", "add", "bridge", "up", "type", "bridge")
        for end in ("near", "far"):
            harness.ip("-n", middle, "link", "set", end, "master", "bridge")
        for test, args in TESTS:
            self.pair(names, test, *args)

    def test_loss_repetition_and_reordering(self):
        """The relay does it to whole super-frames and to datagrams inside them, in both directions."""
        for mtu, how in ((1500, "selective"), (1500, "go-back-n"), (4200, "selective")):
            names, relay = self.with_relay(mtu)
            for test, args in TESTS:
                for rates in FAULTS[how]:
                    with self.subTest(mtu=mtu, retransmission=how, test=test, rates=rates):
                        done = self.with_faults(relay, rates, lambda: self.pair(names, test, *args, *CALM, "--retransmission", how))
                        self.assertGreater(sum(done.values()), 0)

    def test_loss_repetition_and_reordering_over_ipv6(self):
        names, relay = self.with_relay(1500)
        ends = [("--interface", "d0", "--address", f"2001:db8::{number}/64") for number in (1, 2)]
        for test, args in TESTS:
            with self.subTest(test=test):
                done = self.with_faults(relay, FAULTS["selective"][2], lambda: self.pair(
                    names, test, "-x", "0", *args, *CALM, server=ends[0], client=ends[1]))
                self.assertGreater(done["lose"], 0)
                self.assertGreater(done["delay"], 0)

    @staticmethod
    def with_faults(relay, rates, run):
        """How many faults there were while `run` ran."""
        def tell(faults):
            relay.stdin.write(json.dumps(faults) + "\n")
            relay.stdin.flush()
            return json.loads(relay.stdout.readline())
        tell({"seed": 1, **rates})
        try:
            run()
        finally:
            done = tell({})
        return done

    def test_an_interface_that_goes_away_and_comes_back(self):
        self.away_and_back(1)

    def test_several_engines_follow_an_interface_that_comes_back(self):
        self.away_and_back(3)

    def away_and_back(self, count):
        names = self.spaces(1500)
        sockets, daemons = self.daemons(names, count)
        renew(names, pause=0.3)
        self.through(names, sockets, "-q", "4")
        for daemon in daemons:
            self.assertIsNone(daemon.process.poll(), str(daemon))

    def test_an_interface_with_a_new_name(self):
        """The device follows the interface, not the name: another interface may have that by now."""
        names = self.spaces(1500)
        sockets, daemons = self.daemons(names)
        for name in names:
            rename(name, "d0", "net1")
        harness.ip("-n", names[0], "link", "add", "d0", "type", "veth", "peer", "name", "d0-peer")
        for daemon in daemons:
            daemon.wait_for("interface d0: its name is net1 now", 20)
        self.through(names, sockets)

    def ping(self, daemon, address, code):
        shown = self.start([veth.UROCE, "ping", address, "--count", "2", "--socket", daemon.socket], daemon.space)
        return self.finish(shown, 60, code)

    def test_peers_that_are_not_listed(self):
        """The host's firewall does not see RoCE."""
        names = self.spaces(1500)
        other = self.serve(names[1])
        strict = self.serve(names[0], "--allow", "192.0.2.3,2001:db8::/32")
        self.assertIn("0 of 2 answered", self.ping(other, "192.0.2.1", 1))
        self.assertGreater(self.counters_of(strict)["drop_peer_not_allowed"], 0)
        self.assertIn("192.0.2.2: the device's list of peers (device.allow) is without it", self.ping(strict, "192.0.2.2", 1))
        told = self.finish(self.start([veth.UROCE, "explain", "uroce", "--socket", strict.socket]), 30)
        self.assertIn("its address was not resolved: the device's list of peers (device.allow) is without it", told)
        strict.kill()
        listed = self.serve(names[0], "--allow", "192.0.2.2/31")
        self.assertIn("connection manager: 2 of 2 answered", self.ping(other, "192.0.2.1", 0))
        self.assertIn("connection manager: 2 of 2 answered", self.ping(listed, "192.0.2.2", 0))

    def test_an_mtu_that_shrinks_and_grows(self):
        names = self.spaces(4200)
        sockets, _ = self.daemons(names)
        for mtu in (1500, 9000, 4200):
            for name in names:
                harness.ip("-n", name, "link", "set", "d0", "mtu", mtu)
            self.through(names, sockets, "-m", "1024")

    def test_an_interface_that_goes_down(self):
        names = self.spaces(1500)
        server, client = self.start_pair("write_bw", eal(), eal(), *IDLE, "--verify", "--interface", "d0", "-s", "65536",
                                         "-D", "4", *veth.PATIENT, namespaces=names, address="10.199.0.1")
        client.wait_for("remote address", 20)
        for _ in range(3):
            time.sleep(0.3)
            harness.ip("-n", names[0], "link", "set", "d0", "down")
            time.sleep(0.2)
            harness.ip("-n", names[0], "link", "set", "d0", "up")
        self.finish(client, 60)
        self.finish(server, 60)

    def test_a_new_pair_is_up_when_the_daemon_serves(self):
        """The kernel itself handles the carrier of some new interfaces up to a second late."""
        names = self.spaces(1500)
        for _ in range(4):
            renew(names)
            sockets, daemons = self.daemons(names)
            for socket_ in sockets:
                shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
                self.assertTrue(harness.loads(self.finish(shown, 20))[0]["link_up"])
            self.through(names, sockets)
            for daemon in daemons:
                daemon.kill()

    def test_the_daemon_counts_super_frames(self):
        names = self.spaces(1500)
        sockets, _ = self.daemons(names)
        self.through(names, sockets)
        sent, received = [self.counters(socket_) for socket_ in reversed(sockets)]
        self.assertGreater(sent["kif_tx_super_segments"], 200 * 60)
        self.assertGreater(sent["kif_tx_super_segments"] / sent["kif_tx_super_frames"], 16)
        self.assertEqual(sent["kif_tx_super_segments"], received["kif_rx_super_segments"])
        self.assertEqual(sent["port_sent_external"], 0, "a packet is one piece: the kernel copies small ones slowly")
        for name in ("bad_kind", "bad_headers", "bad_lengths", "bad_segment", "too_long", "lost"):
            self.assertEqual(received[f"kif_rx_{name}"], 0, name)


def as_nobody(*command):
    """The command as a user without rights, which is root of a user namespace of its own, with a network of its own."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--map-root-user", "--net",
            *map(str, command)]


# The two ends of a veth pair lie in one namespace here. "$@" is the program with its EAL arguments.
IN_A_USER_NAMESPACE = """
set -e
ip link set lo up
ip link add d0 type veth peer name d1
ip link set d0 up
ip link set d1 up
run() { end=$1; shift; "$@" -- --interface d$end --address 10.1.0.$((end + 1))/24 -s 65536 -n 200 --verify --idle sleep $host; }
host=
run 0 "$@" > server.log 2>&1 &
until ss -Htln sport = :18515 | grep -q .; do kill -0 $! || { cat server.log; exit 1; }; sleep 0.05; done
host=127.0.0.1
run 1 "$@"
wait
"""


@unittest.skipUnless(os.geteuid() == 0 and subprocess.run(as_nobody("true"), capture_output=True, check=False).returncode == 0,
                     "this machine lets ordinary users make no user namespaces")
class WithoutRoot(harness.Case):
    def test_in_a_user_namespace(self):
        os.chmod(self.directory, 0o777)
        program = self.start(
            as_nobody("bash", "-c", IN_A_USER_NAMESPACE, "bash", harness.PERF, "write_bw", "-l", "0", "--no-huge", "-m", "128",
                      "--no-telemetry", "--no-shconf"), env={"XDG_RUNTIME_DIR": str(self.directory), "HOME": str(self.directory)})
        self.assertIn("every byte of 200 messages is right", self.finish(program, 90))


if __name__ == "__main__":
    harness.main()
