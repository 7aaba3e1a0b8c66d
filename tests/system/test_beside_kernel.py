#!/usr/bin/env python3
"""Devices that share their interfaces, addresses, routes and neighbours with the kernel."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import unittest

import harness
import preload
import veth
from dumpcap import Capture
from harness import BUILD, IDLE, PERF, eal, ip, sysctl

UROCED = BUILD / "apps" / "uroced" / "uroced"
UROCE = BUILD / "apps" / "uroce" / "uroce"
RUN = BUILD / "apps" / "uroce-run" / "uroce-run"
RPING = (BUILD / "lib" / "dropin" / "rdmacm").exists() and os.path.exists("/usr/bin/rping")
MEMBER = BUILD / "tests" / "system" / "clients" / "client_member"
NAMESPACES = harness.may_make_namespaces()
AF_PACKET = "--vdev=net_af_packet0,iface=d0"
INTERFACE = "--vdev=net_uroce_kif0,iface=d0"
KERNEL = ("--address", "kernel")
NEAR4, FAR4 = "10.5.0.1", "10.5.0.2"
NEAR6, FAR6 = "2001:db8:5::1", "2001:db8:5::2"
# ICMP about an unreachable port, with the first bytes of the packet that it is about.
UNREACHABLE = "(icmp.type == 3 || icmpv6.type == 1) && udp.port == 4791"


class Link(harness.Case):
    """Two hosts, `near` and `far`, whose interfaces d0 are joined. Both kernels have addresses there."""

    PORT = AF_PACKET
    ADDRESS = KERNEL

    def setUp(self):
        super().setUp()
        tag = f"ur{os.getpid() % 100000}k"
        self.near, self.far, self.gateway = (tag + name for name in ("n", "f", "g"))
        for name in (self.near, self.far, self.gateway):
            ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], timeout=30 * harness.SLOW, check=False)
            # Addresses are there at once.
            sysctl(name, "net.ipv6.conf.default.accept_dad=0")
            sysctl(name, "net.ipv4.conf.default.arp_notify=1")
            sysctl(name, "net.ipv6.conf.default.ndisc_notify=1")
            ip("-n", name, "link", "set", "lo", "up")
        self.socket = self.directory / "uroced.sock"
        self.env = {"UROCE_SOCKET": str(self.socket)}
        self.join()

    def join(self):
        self.cable(self.near, "d0", self.far, "d0")
        self.give(self.near, "d0", f"{NEAR4}/24", f"{NEAR6}/64")
        self.give(self.far, "d0", f"{FAR4}/24", f"{FAR6}/64")

    def cable(self, one, name, other, other_name):
        ip("-n", one, "link", "add", name, "type", "veth", "peer", "name", other_name, "netns", other)
        ip("-n", one, "link", "set", name, "up")
        ip("-n", other, "link", "set", other_name, "up")

    @staticmethod
    def give(space, interface, *addresses):
        for address in addresses:
            ip("-n", space, "addr", "add", address, "dev", interface)

    def within(self, space, *command, seconds=30):
        """The output of a command that succeeds."""
        return self.finish(self.start(command, space), seconds)

    def ping(self, space, address, count=3):
        """How many answers came, and whether any came twice."""
        shown = self.within(space, "busybox", "ping", "-c", count, "-i", "0.2", "-W", "3", address, seconds=60)
        return int(re.search(r"(\d+) packets received", shown).group(1)), "DUP" in shown

    def daemon(self, *args, address=None):
        address = self.ADDRESS if address is None else address
        program = self.start([UROCED, *eal(self.PORT), "--", "--socket", self.socket, *address, *args], self.near)
        program.wait_for("serving uroce0", 20)
        return program

    def rping(self, address):
        """rdma_cm's connection management between two daemons, to an address of the far one. Preloaded, because rping's
        client may end with an error otherwise, though nothing was lost (preload.py)."""
        sockets = [self.directory / name for name in ("near", "far")]
        daemons = [self.start([UROCED, *eal(self.PORT), "--", "--socket", path, *self.ADDRESS], space)
                   for space, path in zip((self.near, self.far), sockets)]
        for daemon in daemons:
            daemon.wait_for("serving uroce0", 20)
        near, far = ({"UROCE_SOCKET": str(path)} for path in sockets)
        server, _ = preload.start_server(self, [RUN, "rping", "-s", "-a", address, "-C", "10", "-V"], env=far)
        client = self.start([RUN, "rping", "-c", "-a", address, "-C", "10", "-V"], env=near | preload.ENVIRONMENT)
        self.finish_both(server, client, 30)
        for daemon in daemons:
            daemon.process.terminate()
            self.finish(daemon, 30)

    def devices(self):
        return self.within(None, UROCE, "devices", "--socket", self.socket)

    def counters(self):
        return json.loads(self.within(None, UROCE, "stat", "--interval", "0", "--json", "--socket", self.socket))[0]["counters"]

    def wait_for_devices(self, text, there=True):
        return veth.wait_for_devices(self, self.socket, text, there)

    def traffic(self, *args, test="write_bw", server=None, client=None, server_args=(), client_args=(), **kw):
        """The server at the far end, the client at the near one; both run when this returns. They find each other by the
        kernels' TCP, on the same interfaces."""
        return self.start_pair(test, server or eal(self.PORT), client or eal(self.PORT), *IDLE, *self.ADDRESS, *args,
                               server_args=server_args, client_args=client_args, namespaces=(self.far, self.near),
                               **{"address": FAR4, **kw})

    def capture(self, space, only="", interface="d0"):
        return Capture(self, space, interface, only, "-s", "120")


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Direct(Link):
    def test_every_kind_of_address(self):
        for index in (0, 1, 2):  # IPv4, IPv6, link-local
            for test in ("write_bw", "read_bw", "send_bw"):
                self.finish_both(*self.traffic("--verify", "-x", index, "-s", "65536", "-n", "50", test=test))

    @unittest.skipUnless(RPING, "the drop-in libraries are not built, or rping is not installed")
    def test_connections_by_rdma_cm(self):
        for address in (FAR4, FAR6):
            with self.subTest(address):
                self.rping(address)

    def test_the_kernel_goes_on(self):
        """A TCP transfer and pings on the same interface and address, while RoCE packets pass."""
        capture = self.capture(self.near, "icmp or icmp6 or arp")
        server, client = self.traffic("--verify", "-s", "65536", "-D", "6")
        content = self.directory / "content"
        content.write_bytes(os.urandom(1 << 24))
        sink = self.start(["python3", "-c", "import hashlib, socket\n"
                           "s = socket.create_server(('', 7777), family=socket.AF_INET6, dualstack_ipv6=True)\n"
                           "print('listening', flush=True)\n"
                           "for _ in range(2):\n"
                           "    c, _ = s.accept(); h = hashlib.sha256()\n"
                           "    while b := c.recv(1 << 16): h.update(b)\n"
                           "    print(h.hexdigest(), flush=True)\n"], self.far)
        sink.wait_for("listening", 20)
        for address in (FAR4, FAR6):
            self.within(self.near, "python3", "-c", "import socket, sys\n"
                        "socket.create_connection((sys.argv[1], 7777)).sendall(open(sys.argv[2], 'rb').read())\n",
                        address, content, seconds=60)
            self.assertEqual(self.ping(self.near, address), (3, False))
        wanted = subprocess.run(["sha256sum", content], capture_output=True, text=True, timeout=30 * harness.SLOW, check=True).stdout.split()[0]
        self.assertEqual(self.finish(sink, 60).split()[1:], [wanted, wanted])
        self.finish_both(server, client)
        self.assertEqual(capture.lines(UNREACHABLE), [])
        answers = "icmp.type == 0 || icmpv6.type == 129"
        capture.wait_for(6, answers)
        self.assertEqual(len(capture.lines(answers)), 6)

    def test_nothing_answers_roce(self):
        """Also to an address without a queue pair, and to a group."""
        self.daemon()
        capture = self.capture(self.far)
        self.within(self.far, "python3", "-c", "import socket\n"
                    f"for f, a in ((socket.AF_INET, '{NEAR4}'), (socket.AF_INET6, '{NEAR6}')):\n"
                    "    u = socket.socket(f, socket.SOCK_DGRAM)\n"
                    "    for _ in range(5): u.sendto(bytes(40), (a, 4791))\n")
        capture.wait_for(10, "udp.dstport == 4791")
        time.sleep(0.3)
        self.assertEqual(capture.lines("icmp.type == 3 || icmpv6.type == 1"), [])
        self.assertEqual(self.ping(self.far, NEAR4), (3, False))

    def test_a_neighbour_that_moves(self):
        self.while_it_lasts(self.move_a_neighbour, (8, 30, 120))

    def move_a_neighbour(self, seconds):
        address = f"02:00:00:00:00:{seconds:02x}"
        capture = self.capture(self.far, f"ether dst {address}")  # the sender's own end shows none of its frames
        server, client = self.traffic("-s", "1024", "-D", seconds)
        client.wait_for("remote address", 20)
        ip("-n", self.far, "link", "set", "d0", "address", address)
        moved = capture.sees(5, "infiniband.bth.opcode == 10", client)
        capture.dump.kill()
        self.finish_both(server, client)
        return moved

    def test_addresses_come_and_go(self):
        daemon = self.daemon()
        member = self.start([MEMBER, "uroce0"], env=self.env)
        member.wait_for("joined", 20)
        for address in (NEAR4, NEAR6, "fe80::"):
            self.wait_for_devices(address)
        self.give(self.near, "d0", "10.5.0.77/24")
        member.wait_for("event 18", 20)  # IBV_EVENT_GID_CHANGE
        self.wait_for_devices("10.5.0.77")
        daemon.wait_for("d0 now has", 20)
        ip("-n", self.near, "addr", "del", "10.5.0.77/24", "dev", "d0")
        shown = self.wait_for_devices("10.5.0.77", there=False)
        for address in (NEAR4, NEAR6, "fe80::"):
            self.assertIn(address, shown)

    def test_a_connection_outlives_another_address(self):
        server, client = self.traffic("--verify", "-s", "65536", "-D", "6")
        client.wait_for("remote address", 20)
        for _ in range(20):
            self.give(self.far, "d0", "10.5.0.78/24")
            ip("-n", self.far, "addr", "del", "10.5.0.78/24", "dev", "d0")
        self.finish_both(server, client)

    def test_an_interface_without_addresses(self):
        ip("-n", self.near, "addr", "flush", "dev", "d0")
        daemon = self.daemon()
        self.assertIn("d0 has no address yet", daemon.output)
        self.give(self.near, "d0", f"{NEAR4}/24")
        self.wait_for_devices(NEAR4)

    def test_tentative_addresses_are_left_out(self):
        sysctl(self.near, "net.ipv6.conf.d0.accept_dad=1")
        self.daemon()
        seen = False
        for number, transmits in enumerate((3, 10), 1):  # seconds
            sysctl(self.near, f"net.ipv6.conf.d0.dad_transmits={transmits}")
            address = f"2001:db8:5::9{number}"
            ip("-n", self.near, "addr", "add", f"{address}/64", "dev", "d0")
            shown = self.devices()
            if tentative := address in self.within(self.near, "ip", "-6", "addr", "show", "dev", "d0", "tentative"):
                self.assertNotIn(address, shown)
            self.wait_for_devices(address)
            seen = seen or tentative
        self.assertTrue(seen, "no address was tentative while the daemon was asked")

    def test_lost_messages(self):
        """The kernel has more to tell than a stopped daemon's socket holds."""
        daemon = self.daemon()
        self.assertEqual(self.counters()["kernel_overruns"], 0)
        daemon.process.send_signal(signal.SIGSTOP)
        batch = self.directory / "batch"
        batch.write_text("".join(f"route add 172.{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}/32 via {FAR4}\n" for i in range(20000)))
        self.within(self.near, "ip", "-batch", batch, seconds=60)
        ip("-n", self.near, "addr", "del", f"{NEAR6}/64", "dev", "d0")
        self.give(self.near, "d0", "10.5.0.77/24")
        daemon.process.send_signal(signal.SIGCONT)
        self.wait_for_devices("10.5.0.77")
        self.wait_for_devices(NEAR6, there=False)
        self.assertGreater(self.counters()["kernel_overruns"], 0)

    def test_groups_are_the_kernels(self):
        self.daemon()
        capture = self.capture(self.far)
        member = self.start([MEMBER, "uroce0", "239.1.2.3", "ff0e::1:2"], env=self.env)
        member.wait_for("joined", 20)
        shown = self.within(self.near, "ip", "maddr", "show", "dev", "d0")
        self.assertIn("239.1.2.3", shown)
        self.assertIn("ff0e::1:2", shown)
        capture.wait_for(1, "igmp.type == 0x22 && igmp.maddr == 239.1.2.3")
        member.kill()
        capture.wait_for(1, "igmp.type == 0x22 && igmp.record_type == 3 && igmp.maddr == 239.1.2.3")
        self.assertNotIn("239.1.2.3", self.within(self.near, "ip", "maddr", "show", "dev", "d0"))

    def test_a_daemon_that_gave_up_its_rights(self):
        """As another user and under the filter of system calls it follows the kernel, looks for neighbours and joins groups."""
        self.directory.chmod(0o777)
        daemon = self.daemon("--user", "games")
        self.assertIn("running as user games", daemon.output)
        self.give(self.near, "d0", "10.5.0.77/24")
        self.wait_for_devices("10.5.0.77")
        capture = self.capture(self.far)
        self.within(self.far, "python3", "-c", "import socket\n"
                    "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                    "for _ in range(5): u.sendto(bytes(40), ('10.5.0.77', 4791))\n")
        capture.wait_for(5, "udp.dstport == 4791")
        self.assertEqual(capture.lines("icmp.type == 3"), [])
        self.start([MEMBER, "uroce0", "239.1.2.3"], env=self.env).wait_for("joined", 20)
        self.assertIn("239.1.2.3", self.within(self.near, "ip", "maddr", "show", "dev", "d0"))
        port = ("-p", harness.free_port())
        server = self.start([PERF, "write_bw", *eal(self.PORT), "--", *IDLE, *self.ADDRESS, *port, "-n", "50"], self.far)
        client = self.start([PERF, "write_bw", "--", "--daemon", "--socket", self.socket, "-n", "50", *port, FAR4], self.near)
        self.finish_both(server, client)
        # TCP may have had the kernel find the far end meanwhile.
        nobody = self.start([UROCE, "ping", "10.5.0.99", "--count", "1", "--socket", self.socket])
        self.assertNotEqual(nobody.wait(60), 0, str(nobody))
        counters = self.counters()
        self.assertGreater(counters["neighbour_requests"], 0)
        self.assertGreater(counters["kernel_messages"], 0)

    def test_the_interface_goes_down_shrinks_and_is_deleted(self):
        daemon = self.daemon()
        self.assertIn("kernel d0", self.devices())
        member = self.start([MEMBER, "uroce0"], env=self.env)
        member.wait_for("joined", 20)
        ip("-n", self.near, "link", "set", "d0", "down")
        member.wait_for("event 10", 20)  # IBV_EVENT_PORT_ERR
        ip("-n", self.near, "link", "set", "d0", "up")
        member.wait_for("event 9", 20)  # IBV_EVENT_PORT_ACTIVE
        ip("-n", self.near, "link", "set", "d0", "mtu", "1000")
        daemon.wait_for("the MTU of d0 is now 1000", 20)
        ip("-n", self.near, "link", "set", "d0", "address", "02:00:00:00:00:09")
        daemon.wait_for("d0 has the new Ethernet address 02:00:00:00:00:09", 20)
        ip("-n", self.near, "link", "del", "d0")
        daemon.wait_for("its interface has gone", 20)
        member.wait_for("event 8", 20)  # IBV_EVENT_DEVICE_FATAL
        self.cable(self.near, "d0", self.far, "d0")  # another of the same name
        self.give(self.near, "d0", f"{NEAR4}/24")
        time.sleep(0.3)
        self.assertIn("down", self.devices())

    def test_what_cannot_be(self):
        for port, args, text in ((("--vdev=net_ring0",), (), "is on no interface of the kernel"),
                                 ((self.PORT,), ("--vlan", "5"), "name the VLAN's own interface")):
            program = self.start([UROCED, *eal(*port), "--", "--socket", self.socket, *KERNEL, *args], self.near)
            self.assertEqual(program.wait(20), 2, str(program))
            self.assertIn(text, program.output)
        path = self.directory / "uroced.toml"
        path.write_text('[[device]]\naddresses = "kernel"\n')
        daemon = self.daemon("--config", path, address=())
        path.write_text('[[device]]\naddresses = ["10.5.0.9/24"]\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("only at a new start", 20)
        self.assertIn(NEAR4, self.devices())

    def test_nobody_answers(self):
        program = self.start([PERF, "write_bw", *eal(self.PORT), "--", *IDLE, *self.ADDRESS, "-n", "5", "-p", harness.free_port(),
                              "--connect-timeout", "3", "10.5.0.99"], self.near)
        self.assertNotEqual(program.wait(60), 0)


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class DirectByInterface(Direct):
    """All of that for ports that are given an interface and nothing else: the kernel's addresses are their default."""

    PORT = INTERFACE
    ADDRESS = ()

    def test_the_interface_goes_down_shrinks_and_is_deleted(self):
        """It may come back, then the port goes on."""
        daemon = self.daemon()
        member = self.start([MEMBER, "uroce0"], env=self.env)
        member.wait_for("joined", 20)
        ip("-n", self.near, "link", "del", "d0")
        member.wait_for("event 10", 20)  # IBV_EVENT_PORT_ERR
        self.wait_for_devices(NEAR4, there=False)
        self.cable(self.near, "x0", self.far, "x0")  # takes the free index, so that d0 gets another
        self.join()
        member.wait_for("event 9", 20)  # IBV_EVENT_PORT_ACTIVE
        self.wait_for_devices(NEAR4)
        self.assertIsNone(daemon.process.poll(), str(daemon))

    def test_one_command_for_each_host(self):
        """The first example of the README."""
        sockets = [self.directory / name for name in ("near", "far")]
        for space, path in zip((self.near, self.far), sockets):
            self.start([UROCED, "--interface", "d0", "--socket", path], space).wait_for("serving uroce0", 20)
        common = ["-p", harness.free_port(), "--daemon", "--verify", "-s", "65536", "-n", "200"]
        server = self.start([PERF, "write_bw", "--", *common, "--socket", sockets[1]], self.far)
        client = self.start([PERF, "write_bw", "--", *common, "--socket", sockets[0], FAR4], self.near)
        self.finish_both(server, client)
        self.assertIn("every byte of 200 messages is right", server.output)


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class ComesBack(Link):
    """The interface comes back with the same Ethernet address and another index."""

    PORT = INTERFACE

    def renew(self):
        shown = json.loads(self.within(self.near, "ip", "-j", "link", "show", "d0"))
        mac = shown[0]["address"]
        ip("-n", self.near, "link", "del", "d0")
        self.cable(self.near, "x0", self.far, "x0")  # takes the free index
        ip("-n", self.near, "link", "add", "d0", "address", mac, "type", "veth", "peer", "name", "d0", "netns", self.far)
        ip("-n", self.near, "link", "set", "d0", "up")
        ip("-n", self.far, "link", "set", "d0", "up")
        self.give(self.near, "d0", f"{NEAR4}/24")

    def link_local(self):
        shown = json.loads(self.within(self.near, "ip", "-j", "-6", "addr", "show", "dev", "d0", "scope", "link"))
        return shown[0]["addr_info"][0]["local"]

    def test_the_kernel_answers_nothing_on_link_local_addresses(self):
        for number, address in enumerate((KERNEL, ("--address", "10.9.0.1/24"))):
            with self.subTest(address=address):
                daemon = self.daemon(address=address)
                if number == 1:
                    ip("-n", self.near, "link", "del", "x0")
                self.renew()
                own = self.link_local()
                self.wait_for_devices(own)
                self.wait_for_devices(" up ")
                capture = self.capture(self.far)
                self.within(self.far, "python3", "-c", "import socket\n"
                            "u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                            f"for _ in range(5): u.sendto(bytes(40), ('{own}', 4791, 0, socket.if_nametoindex('d0')))\n")
                capture.wait_for(5, "udp.dstport == 4791")
                self.assertEqual(capture.lines("icmpv6.type == 1"), [])
                daemon.process.terminate()
                self.finish(daemon, 30)


@unittest.skipUnless(NAMESPACES, "this machine allows no network namespaces with veth pairs")
class Routed(Link):
    """`near` and `far` are on two links that a third host joins."""

    def join(self):
        self.cable(self.near, "d0", self.gateway, "n0")
        self.cable(self.far, "d0", self.gateway, "f0")
        sysctl(self.gateway, "net.ipv4.ip_forward=1")
        sysctl(self.gateway, "net.ipv6.conf.all.forwarding=1")
        for space, number, port in ((self.near, 5, "n0"), (self.far, 6, "f0")):
            self.give(space, "d0", f"10.{number}.0.1/24", f"2001:db8:{number}::1/64")
            self.give(self.gateway, port, f"10.{number}.0.254/24", f"2001:db8:{number}::254/64")
            # A route to the other link alone, so that everything else is unreachable.
            other = 11 - number
            ip("-n", space, "route", "add", f"10.{other}.0.0/24", "via", f"10.{number}.0.254")
            ip("-n", space, "route", "add", f"2001:db8:{other}::/64", "via", f"2001:db8:{number}::254")

    def test_through_the_gateway(self):
        for index in (0, 1):
            self.finish_both(*self.traffic("--verify", "-x", index, "-s", "65536", "-n", "100", address="10.6.0.1"))

    @unittest.skipUnless(RPING, "the drop-in libraries are not built, or rping is not installed")
    def test_connections_by_rdma_cm(self):
        for address in ("10.6.0.1", "2001:db8:6::1"):
            with self.subTest(address):
                self.rping(address)

    def test_the_route_changes(self):
        """A second way to the same gateway: another interface of it, on the same link by a bridge."""
        ip("-n", self.gateway, "link", "add", "m0", "link", "n0", "address", "02:00:00:00:00:07", "type", "macvlan", "mode",
           "bridge")
        ip("-n", self.gateway, "link", "set", "m0", "up")
        sysctl(self.gateway, "net.ipv4.conf.all.rp_filter=0")
        sysctl(self.gateway, "net.ipv4.conf.all.arp_ignore=1")
        self.give(self.gateway, "m0", "10.5.0.253/32")
        self.while_it_lasts(self.change_the_route, (8, 30, 120))

    def change_the_route(self, seconds):
        ip("-n", self.near, "route", "replace", "10.6.0.0/24", "via", "10.5.0.254")
        capture = self.capture(self.gateway, "ether dst 02:00:00:00:00:07", "n0")
        server, client = self.traffic("-s", "1024", "-D", seconds, address="10.6.0.1")
        client.wait_for("remote address", 20)
        ip("-n", self.near, "route", "replace", "10.6.0.0/24", "via", "10.5.0.253")
        changed = capture.sees(5, "infiniband.bth.opcode == 10", client)
        capture.dump.kill()
        self.finish_both(server, client)
        return changed

    def test_no_route(self):
        ip("-n", self.near, "route", "del", "2001:db8:6::/64")
        ip("-n", self.near, "route", "del", "10.6.0.0/24")
        # The programs still meet, by another link.
        self.cable(self.near, "c0", self.far, "c0")
        self.give(self.near, "c0", "10.8.0.1/24")
        self.give(self.far, "c0", "10.8.0.2/24")
        for index in (0, 1):
            server, client = self.traffic("-n", "5", "-x", index, address="10.8.0.2")
            self.assertNotEqual(client.wait(60), 0)
            self.assertIn("no route to", client.output)
            server.kill()


class RoutedByInterface(Routed):
    """As between pods whose network routes: super-frames pass the gateway."""

    PORT = INTERFACE
    ADDRESS = ()


# Two hosts in a user namespace, joined by d0. Runs `server` in one and `client` in the other, and ends as the client.
USER_NAMESPACE = """set -e
unshare --net sleep 300 & peer=$!
trap 'kill $(jobs -p)' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
within="nsenter --preserve-credentials -t $peer -n"
only="setpriv --no-new-privs --bounding-set=-all,+net_raw --inh-caps=-all"
ip link add d0 type veth peer name d0 netns $peer
ip addr add 10.5.0.1/24 dev d0
$within ip addr add 10.5.0.2/24 dev d0
for host in "" "$within"; do $host ip link set lo up; $host ip link set d0 up; done
$only grep CapEff /proc/self/status
"""


def may_make_user_namespaces():
    done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "unshare", "--user",
                           "--map-root-user", "--net", "ip", "link", "add", "d0", "type", "veth"], capture_output=True,
                          timeout=30 * harness.SLOW, check=False)
    return done.returncode == 0


USER = 61234  # nobody else's


@unittest.skipUnless(os.geteuid() == 0 and may_make_user_namespaces(), "this machine allows no user namespaces with veth pairs")
class WithoutRoot(harness.Case):
    """An ordinary user, root in a user namespace of its own, whose programs have CAP_NET_RAW alone."""

    PORT = ("--vdev=net_uroce_kif0,iface=d0", "--no-shconf")
    ADDRESS = ()

    def run_there(self, script):
        self.directory.chmod(0o777)
        script = USER_NAMESPACE + script
        program = self.start(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "unshare", "--user",
                              "--map-root-user", "--net", "bash", "-c", script])
        output = self.finish(program, 120)
        self.assertIn("CapEff:\t0000000000002000", output)
        return output

    def words(self, *command):
        return " ".join(shlex.quote(str(word)) for word in command)

    def test_programs(self):
        port = harness.free_port()
        both = (*IDLE, *self.ADDRESS, "--verify", "-m", "1024", "-s", "65536", "-n", "50", "-p", port)
        output = self.run_there(
            f"$within $only {self.words(PERF, 'write_bw', *eal(*self.PORT), '--', *both)} & server=$!\n"
            f"$only {self.words(PERF, 'write_bw', *eal(*self.PORT), '--', *both, '10.5.0.2')}\n"
            "wait $server\n")
        self.assertEqual(output.count("every byte of 50 messages is right"), 2, output)

    def test_daemons(self):
        self.through_daemons(*eal(*self.PORT), "--", *self.ADDRESS)

    def test_one_command_for_each_host(self):
        """As in a pod, see config/containers.md."""
        self.through_daemons("--interface", "d0", "--user", "")

    def through_daemons(self, *args):
        """Verified WRITEs between two daemons with these arguments."""
        def daemon(name):
            return self.words(UROCED, *args, "--socket", self.directory / name)

        def perf(name, *args):
            return self.words(PERF, "write_bw", "--", "--daemon", "--socket", self.directory / name, "--verify", "-m", "1024", "-s",
                              "65536", "-n", "50", "-p", port, *args)

        port = harness.free_port()
        self.run_there(
            f"$only {daemon('a')} & a=$!\n$within $only {daemon('b')} & b=$!\n"
            f"until {' && '.join(self.words(UROCE, 'devices', '--socket', self.directory / name) for name in 'ab')}; "
            "do kill -0 $a $b; sleep 0.1; done\n"
            f"$within $only {perf('b')} & server=$!\n"
            f"$only {perf('a', '10.5.0.2')}\nwait $server\n"
            "kill $a $b\nwait $a $b\n")


class WithoutRootByPcap(WithoutRoot):
    """net_pcap needs no other right either; net_af_packet sets the interface."""

    PORT = ("--vdev=net_pcap0,iface=d0,phy_mac=1", "--no-shconf")
    ADDRESS = KERNEL
    test_one_command_for_each_host = None  # names the other port


if __name__ == "__main__":
    harness.main()
