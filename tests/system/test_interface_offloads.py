#!/usr/bin/env python3
"""Ports on interfaces that the kernel keeps, with the interface's offloads on and off, on a VLAN's interface, and with several
engines: verified data each time."""

import unittest

import harness
import veth
from veth import by, engines

# Enough for super-frames both ways, and for small packets.
TESTS = (("write_bw", ("-s", "65536", "-n", "100")), ("read_bw", ("-s", "65536", "-n", "100")),
         ("send_bw", ("-s", "100", "-n", "1000", "-q", "5")))
# Features that are switched at both ends: each receives and sends.
OFFLOADS = {"GRO": {"rx-gro": "on"}, "no GRO": {"rx-gro": "off"},
            "no transmit checksums": {"tx-checksum-ip-generic": "off"},
            "no receive checksums": {"rx-checksum": "off"},
            "no VLAN offload": {"rx-vlan-hw-parse": "off", "tx-vlan-hw-insert": "off"},
            "nothing": {"rx-gro": "off", "rx-checksum": "off", "tx-checksum-ip-generic": "off", "tx-udp-segmentation": "off",
                        "rx-vlan-hw-parse": "off", "tx-vlan-hw-insert": "off"}}


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Offloads(veth.Case):
    def through(self, names, daemons, *more):
        for test, args in TESTS:
            with self.subTest(test):
                self.finish_both(*self.traffic(test, names, by(daemons[0]), by(daemons[1]), "--verify", *args, *more))

    def no_super_frame_was_bad(self, daemons):
        for daemon in daemons:
            counters = self.counters_of(daemon)
            for name in ("bad_kind", "bad_headers", "bad_lengths", "bad_segment", "too_long", "lost"):
                self.assertEqual(counters[f"kif_rx_{name}"], 0, name)

    def test_each_offload(self):
        """Switched under the daemons, as ethtool does it. The kernel cuts up and checks what the interface does not."""
        names = self.spaces(1500)
        daemons = [self.serve(name) for name in names]
        for title, features in OFFLOADS.items():
            with self.subTest(title):
                for name in names:
                    for feature, on in features.items():
                        self.offload(name, on, feature)
                self.through(names, daemons)
                for name in names:
                    for feature in features:
                        self.offload(name, "on", feature)
        self.no_super_frame_was_bad(daemons)

    def test_tags_without_offload(self):
        """The tag then stands in the frame, where the receiver's kernel takes it out."""
        names = self.spaces(1500)
        daemons = [self.serve(name, "--vlan", "7", "--address", f"10.117.0.{number}/24") for number, name in enumerate(names, 1)]
        for features in (("tx-vlan-hw-insert",), ("tx-vlan-hw-insert", "rx-vlan-hw-parse")):
            for name in names:
                for feature in features:
                    self.offload(name, "off", feature)
            self.through(names, daemons)
        self.no_super_frame_was_bad(daemons)

    def test_a_vlans_interface(self):
        """The kernel has its own interface for the tag, with its own addresses."""
        names = self.spaces(1500)
        daemons = []
        for number, name in enumerate(names, 1):
            try:
                harness.ip("-n", name, "link", "add", "link", "d0", "name", "d0.100", "type", "vlan", "id", "100")
            except RuntimeError as refused:
                self.skipTest(f"this kernel makes no interface of a VLAN (module 8021q): {refused}")
            harness.ip("-n", name, "addr", "add", f"198.51.100.{number}/24", "dev", "d0.100")
            harness.ip("-n", name, "link", "set", "d0.100", "up")
            daemons.append(self.serve(name, interface="d0.100"))
        self.through(names, daemons)
        for name in names:
            self.offload(name, "off", "tx-vlan-hw-insert")
        self.through(names, daemons)
        self.no_super_frame_was_bad(daemons)
        sent = self.counters_of(daemons[1])
        self.assertGreater(sent["kif_tx_super_segments"], 1000)

    def test_flows_are_spread_over_the_engines_sockets(self):
        """The kernel chooses the socket by the queue pair's number, so engines hand next to nothing over to each other."""
        names = self.spaces(1500)
        server, client = self.serve(names[0], eal_args=engines(3)), self.serve(names[1], eal_args=engines(2))
        before = [self.engine_metric(daemon, "port_frames") for daemon in (server, client)]
        steered = [self.counters_of(daemon)["port_steered"] for daemon in (server, client)]
        self.finish_both(*self.traffic("write_bw", names, by(server), by(client), "--verify", "-q", "32", "-s", "65536", "-n", "30"))
        after = [self.engine_metric(daemon, "port_frames") for daemon in (server, client)]
        taken = [[a - b for a, b in zip(*pair)] for pair in zip(after, before)]
        self.assertEqual([len(row) for row in taken], [3, 2])
        # Each of 32 flows brings 30 messages of 64 packets, or an ACK of each message and more.
        for row, least in zip(taken, (30 * 64, 30)):
            self.assertGreaterEqual(sum(count >= least for count in row), 2, row)
        self.assertGreaterEqual(sum(taken[0]), 32 * 30 * 64)
        for daemon, once, row in zip((server, client), steered, taken):
            self.assertLess(self.counters_of(daemon)["port_steered"] - once, sum(row) / 20)


if __name__ == "__main__":
    harness.main()
