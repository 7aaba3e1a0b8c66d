#!/usr/bin/env python3
"""Ports on UDP sockets (net_uroce_udp), for programs without any capability, on a veth pair between two namespaces."""

import pathlib
import subprocess
import unittest

import dumpcap
import harness
import veth
from harness import BUILD, eal
from veth import TESTS, engines, rename, renew

RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
UDP, PACKETS = "--vdev=net_uroce_udp0,iface=d0", "--vdev=net_uroce_kif0,iface=d0"
KERNEL = ("--address", "kernel")
NOBODY = 65534
# An ordinary user of a pod or of a shared machine: no capability, and none to be had.
WITHOUT_RIGHTS = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                  "--no-new-privs")
DOCKER = pathlib.Path(__file__).parent / "docker_seccomp.py"
GROUP = "239.1.2.3"


def give_ipv6(names):
    for number, name in enumerate(names, 1):
        subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.d0.disable_ipv6=0"], check=True)
        harness.ip("-n", name, "addr", "add", f"2001:db8::{number}/64", "dev", "d0", "nodad")


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Ports(veth.Case):
    """As root, so that one end may have packet sockets."""

    def both(self, names, *args, server=UDP, client=UDP):
        for test, options in TESTS:
            with self.subTest(test=test, server=server, client=client):
                self.pair(names, test, *options, *args, server=KERNEL, client=KERNEL, server_eal=eal(server), client_eal=eal(client))

    def test_every_operation_at_every_mtu(self):
        for mtu in (1500, 4200, 9000):
            self.both(self.spaces(mtu))

    def test_a_peer_with_packet_sockets(self):
        names = self.spaces(1500)
        self.both(names, client=PACKETS)
        self.both(names, server=PACKETS)

    def test_without_segmentation_or_merging(self):
        names = self.spaces(1500)
        for name in names:
            self.offload(name, "off")
            self.offload(name, "off", "rx-gro")
        self.both(names)

    def test_ipv6(self):
        names = self.spaces(4200)
        give_ipv6(names)
        self.both(names, "-x", "1")
        self.both(names, "-x", "1", server=PACKETS)

    def test_several_engines(self):
        self.pair(self.spaces(1500), "write_bw", "-q", "16", "-s", "65536", "-n", "100", server=KERNEL, client=KERNEL,
                  server_eal=engines(2, UDP), client_eal=engines(3, UDP))

    def test_flows_have_source_ports_of_their_own(self):
        """So that the paths of a switch and the queues of a receiver share them."""
        names = self.spaces(1500)
        self.offload(names[1], "off")  # queue pairs that share a port share super-frames, too
        seen = dumpcap.Capture(self, names[1], "d0", "udp dst port 4791 and src host 192.0.2.2")
        self.pair(names, "write_bw", "-q", "32", "-s", "8192", "-n", "40", server=KERNEL, client=KERNEL, server_eal=eal(UDP), client_eal=eal(UDP))
        frames = {tuple(line.split("\t")) for line in seen.lines("infiniband.bth.opcode <= 0x0b", "udp.srcport", "infiniband.bth.destqp")}
        ports = {int(port) for port, _ in frames}
        self.assertGreaterEqual(len({queue_pair for _, queue_pair in frames}), 32, frames)
        self.assertEqual(len(frames), len({queue_pair for _, queue_pair in frames}), f"a queue pair keeps its port: {frames}")
        self.assertGreaterEqual(len(ports), 4, ports)
        self.assertGreaterEqual(min(ports), 0xC000)

    def test_an_interface_that_comes_back(self):
        names = self.spaces(1500)
        server = self.serve(names[0], eal_args=eal(UDP), interface=None)
        client = self.serve(names[1], eal_args=eal(UDP), interface=None)
        renew(names, arp="on")
        self.give_addresses(names)
        for daemon in (server, client):
            daemon.wait_for("now has", 30)
        programs = self.traffic("write_bw", names, veth.by(server), veth.by(client), "--verify", "-n", "200")
        self.finish_both(*programs)

    def test_an_interface_with_a_new_name(self):
        names = self.spaces(1500)
        server = self.serve(names[0], eal_args=eal(UDP), interface=None)
        client = self.serve(names[1], eal_args=eal(UDP), interface=None)
        rename(names[1], "d0", "net1")
        client.wait_for("interface d0: its name is net1 now", 20)
        programs = self.traffic("write_bw", names, veth.by(server), veth.by(client), "--verify", "-n", "200")
        self.finish_both(*programs)


class Launch(veth.Case):
    """Daemons of an ordinary user."""

    def launched(self, space, *args, before=()):
        self.directory.chmod(0o777)
        path = self.directory / f"{space}-{len(list(self.directory.iterdir()))}.sock"
        daemon = self.start([*WITHOUT_RIGHTS, *before, veth.UROCED, *eal(), "--", "--socket", path, "--idle", "sleep", *args], space,
                            env={"XDG_RUNTIME_DIR": str(self.directory)})
        daemon.space, daemon.socket = space, path
        return daemon

    def served(self, space, before=()):
        daemon = self.launched(space, "--interface", "d0", before=before)
        daemon.wait_for("serving uroce0", 30)
        self.assertIn("so RoCE passes by a UDP socket", daemon.output)
        return daemon


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class WithoutRights(Launch):
    def program(self, daemon, *command, before=()):
        return self.start([*WITHOUT_RIGHTS, *before, RUN, "--socket", daemon.socket, *command], daemon.space)

    def both_ends(self, daemons, server, client, before=()):
        """Two programs, of which the second one may be too early."""
        first = self.program(daemons[0], *server, before=before)
        limit = harness.time.monotonic() + 30 * harness.SLOW
        while True:
            second = self.program(daemons[1], *client, before=before)
            if second.wait(60) == 0 or first.process.poll() is not None or harness.time.monotonic() > limit:
                return self.finish_both(first, second)
            harness.time.sleep(0.2)

    def programs_run(self, before=()):
        names = self.spaces(4200)
        give_ipv6(names)
        daemons = [self.served(name, before) for name in names]
        for daemon, index in zip(daemons, (1, 2)):
            veth.wait_for_devices(self, daemon.socket, f"2001:db8::{index}")
        for index in ("0", "1"):
            perf = ["ib_write_bw", "-d", "uroce0", "-F", "-x", index, "-n", "500"]
            self.both_ends(daemons, perf, [*perf, "192.0.2.1"], before)
        for address in ("192.0.2.1", "2001:db8::1"):
            self.both_ends(daemons, ["rping", "-s", "-a", address, "-C", "20", "-V"], ["rping", "-c", "-a", address, "-C", "20", "-V"], before)
        for number, group in ((("192.0.2.1", "192.0.2.2"), GROUP), (("2001:db8::1", "2001:db8::2"), "ff0e::1234")):
            receiver = self.program(daemons[0], "stdbuf", "-oL", "mckey", "-b", number[0], "-m", group, before=before)
            receiver.wait_for("receiving data transfers", 30)
            sender = self.program(daemons[1], "mckey", "-b", number[1], "-m", group, "-s", before=before)
            self.finish_both(receiver, sender)
        server, client = (self.counters_of(daemon) for daemon in daemons)
        for counters in (server, client):
            self.assertEqual((counters["udp_rx_unknown_ids"], counters["udp_tx_foreign"], counters["udp_tx_dropped"]), (0, 0, 0))
        # The client sends the long messages. It receives acknowledgements, which seldom come two at a time.
        self.assertGreater(client["udp_tx_super_frames"], 0)
        self.assertGreater(server["udp_rx_super_frames"], 0)

    def test_programs(self):
        self.programs_run()

    def test_programs_in_a_container_of_docker(self):
        self.programs_run(before=(DOCKER,))

    def test_a_port_says_what_it_is(self):
        daemon = self.served(self.spaces(1500)[0])
        shown = self.finish(self.start([veth.UROCE, "devices", "--socket", daemon.socket]), 30)
        self.assertIn("UDP socket", shown)
        found = self.start([veth.UROCE, "doctor", "--json", "--socket", daemon.socket], daemon.space)
        found.wait(30)
        self.assertIn("UDP socket", found.output)

    def test_what_it_cannot_do_is_refused_by_name(self):
        space = self.spaces(1500)[0]
        for words, said in ((("--address", "10.1.1.1/24"), "a UDP socket has the kernel's addresses alone"),
                            (("--vlan", "7", "--address", "10.1.1.1/24"), "a UDP socket has no tags; name the interface of the VLAN")):
            refused = self.launched(space, "--interface", "d0", *words)
            self.assertEqual(refused.wait(30), 2, refused)
            self.assertIn(said, refused.output)
        daemon = self.served(space)
        raw = self.start([RUN, "--socket", daemon.socket, "raw_ethernet_bw", "-d", "uroce0", "-B", "02:00:00:00:00:02", "-E", "02:00:00:00:00:01", "--server", "-n", "5"],
                         space, env={"UROCE_VERBOSE": "1"})
        raw.wait(30)
        self.assertIn("sends and receives by a UDP socket, which carries no raw packets", raw.output)
        second = self.launched(space, "--interface", "d0")
        self.assertNotEqual(second.wait(30), 0, second)
        self.assertIn("in use by another program of uroce", second.output)


if __name__ == "__main__":
    harness.main()
