#!/usr/bin/env python3
"""Ports on interfaces that the kernel keeps (net_uroce_kif), on a veth pair between two namespaces."""

import json
import os
import signal
import subprocess
import time
import unittest

import harness
import veth
from harness import IDLE, eal
from veth import TESTS, engines

# The relay is slower than the ends. Beyond a few messages under way, timeouts would only tell how slow.
CALM = ("-t", "8", "-u", "16")
# Chances of a frame, in lossy.py. Go-Back-N sends all again that follows a lost frame, and gives up where most of that fails too.
FAULTS = {"selective": ({"lose": 0.01}, {"repeat": 0.02, "delay": 0.01}, {"lose": 0.01, "repeat": 0.01, "delay": 0.01}),
          "go-back-n": ({"lose": 0.003}, {"repeat": 0.01, "delay": 0.003}, {"lose": 0.002, "repeat": 0.01, "delay": 0.002})}


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Interface(veth.Case):
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
        own = [*IDLE, "--verify", "--interface", "d0", "-s", "65536", "-n", "200", "-p", harness.free_port()]
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

    def apart(self, mtu):
        """Two namespaces whose d0 lead to `near` and `far` in a third one. Returns the first two, and the third."""
        names = self.spaces(mtu)
        middle = f"{names[0]}m"
        harness.ip("netns", "add", middle)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", middle], timeout=30, check=False)
        harness.sysctl(middle, "net.ipv6.conf.default.disable_ipv6=1")
        harness.ip("-n", names[0], "link", "del", "d0")
        for name, end in zip(names, ("near", "far")):
            harness.ip("-n", name, "link", "add", "d0", "mtu", mtu, "type", "veth", "peer", "name", end, "mtu", mtu, "netns", middle)
            harness.ip("-n", middle, "link", "set", end, "arp", "off", "up")
        self.give_addresses(names)
        return names, middle

    def with_relay(self, mtu):
        """Two namespaces whose d0 are joined by lossy.py in a third one. Returns the first two, and the relay."""
        names, middle = self.apart(mtu)
        relay = subprocess.Popen(["ip", "netns", "exec", middle, harness.SOURCE / "tests/system/lossy.py", "near", "far"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(relay.stdout.close)
        self.addCleanup(relay.wait, 20)
        self.addCleanup(relay.stdin.close)
        self.assertEqual(relay.stdout.readline(), "relaying\n")
        return names, relay

    def test_a_bridge(self):
        """As between two containers of docker."""
        names, middle = self.apart(1500)
        harness.ip("-n", middle, "link", "add", "bridge", "up", "type", "bridge")
        for end in ("near", "far"):
            harness.ip("-n", middle, "link", "set", end, "master", "bridge")
        for test, args in TESTS:
            self.pair(names, test, *args)

    def test_loss_repetition_and_reordering(self):
        """Of whole super-frames and of datagrams inside them, in both directions."""
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
        self.renew(names, pause=0.3)
        self.through(names, sockets, "-q", "4")
        for daemon in daemons:
            self.assertIsNone(daemon.process.poll(), str(daemon))

    def renew(self, names, pause=0, same_index=False):
        """Deletes the pair of d0 and, after some seconds, makes one with the same addresses, and maybe the same indexes."""
        old = [self.link(name) for name in names]
        harness.ip("-n", names[0], "link", "del", "d0")  # takes the other end along
        time.sleep(pause)
        index = [["index", one["ifindex"]] if same_index else [] for one in old]
        harness.ip("-n", names[0], "link", "add", "d0", "address", old[0]["address"], *index[0], "type", "veth", "peer", "name", "d0",
                   "address", old[1]["address"], *index[1], "netns", names[1])
        for name in names:
            harness.ip("-n", name, "link", "set", "d0", "arp", "off", "up")

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
                                         "-D", "4", "-u", "18", namespaces=names, address="10.199.0.1")
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
            self.renew(names)
            sockets, daemons = self.daemons(names)
            for socket_ in sockets:
                shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
                self.assertTrue(json.loads(self.finish(shown, 20))[0]["link_up"])
            self.through(names, sockets)
            for daemon in daemons:
                daemon.kill()

    def link(self, name):
        shown = subprocess.run(["ip", "-n", name, "-j", "link", "show", "d0"], capture_output=True, text=True, timeout=30,
                               check=True)
        return json.loads(shown.stdout)[0]

    def daemons(self, names, count=1, user="", addresses=(("10.117.0.1/24",), ("10.117.0.2/24",))):
        """A daemon of `count` engines in each namespace: their sockets, and the programs."""
        sockets = [self.directory / f"{i}.sock" for i in range(2)]
        daemons = []
        for i, name in enumerate(names):
            daemons.append(self.start([harness.BUILD / "apps/uroced/uroced", *engines(count), "--", "--interface", "d0",
                                       "--address", ",".join(addresses[i]), "--socket", sockets[i], "--user", user],
                                      name))
        for daemon in daemons:
            daemon.wait_for("serving", 20)
        return sockets, daemons

    def through(self, names, sockets, *args):
        """Verified WRITEs from the second daemon to the first."""
        common = ["-p", harness.free_port(), "--daemon", "--verify", "-s", "65536", "-n", "200", *args]
        server = self.start([harness.PERF, "write_bw", "--", *common, "--socket", sockets[0]], names[0])
        client = self.start([harness.PERF, "write_bw", "--", *common, "--socket", sockets[1], "10.199.0.1"], names[1])
        self.finish(client, 60)
        self.finish(server, 60)

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

    def counters(self, socket_):
        shown = subprocess.run([harness.BUILD / "apps/uroce/uroce", "stat", "--json", "--all", "--interval", "0", "--socket",
                                socket_], capture_output=True, text=True, timeout=30, check=True).stdout
        return json.loads(shown)[0]["counters"]


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class ComesBack(veth.Case):
    """An interface that goes and comes back under daemons, whatever rights they have."""

    renew, link, daemons, through = Interface.renew, Interface.link, Interface.daemons, Interface.through

    def test_one_engine_without_rights_goes_on(self):
        names = self.spaces(1500)
        self.directory.chmod(0o777)
        sockets, _ = self.daemons(names, user="games")
        self.renew(names, pause=0.3)
        self.through(names, sockets)

    def test_several_engines_without_rights_say_that_the_port_is_down(self):
        names = self.spaces(1500)
        self.directory.chmod(0o777)
        sockets, daemons = self.daemons(names, 2, user="games")
        self.renew(names, pause=0.3)
        for socket_, daemon in zip(sockets, daemons):
            daemon.wait_for("the port is down until the program starts again", 20)
            shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
            self.assertFalse(json.loads(self.finish(shown, 20))[0]["link_up"])

    def test_with_the_same_index_while_nobody_looks(self):
        for count in (1, 2):
            names = self.spaces(1500)
            sockets, daemons = self.daemons(names, count)
            for daemon in daemons:
                daemon.process.send_signal(signal.SIGSTOP)
            self.renew(names, same_index=True)
            for daemon in daemons:
                daemon.process.send_signal(signal.SIGCONT)
            self.through(names, sockets, "-q", "4")
            for daemon in daemons:
                daemon.kill()


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Buffers(veth.Case):
    daemons = Interface.daemons

    def test_a_socket_holds_more_than_by_default(self):
        names = self.spaces(1500)
        self.daemons(names)
        sockets = self.finish(self.start(["ss", "--packet", "--memory", "--numeric"], names[0]), 20)
        # skmem: what waits, and the limit, for receiving and for sending.
        self.assertRegex(sockets, r"rb67108864,t\d+,tb1048576,")


# Frames to 10.117.0.3 meet a queue without room, as at a filter that drops them.
DROPS = """
tc qdisc add dev d0 root handle 1: htb default 1 &&
tc class add dev d0 parent 1: classid 1:1 htb rate 100gbit quantum 60000 &&
tc class add dev d0 parent 1: classid 1:2 htb rate 100gbit quantum 60000 &&
tc qdisc add dev d0 parent 1:2 pfifo limit 0 &&
tc filter add dev d0 parent 1: protocol ip u32 match ip dst 10.117.0.3 flowid 1:2
"""


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class DroppedOnTheWayOut(veth.Case):
    daemons, counters = Interface.daemons, Interface.counters

    def shell(self, name, script):
        return subprocess.run(["ip", "netns", "exec", name, "sh", "-c", script], capture_output=True, text=True, timeout=30, check=False)

    def test_a_destination_that_a_filter_drops_stops_no_other(self):
        names = self.spaces(1500)
        if (tried := self.shell(names[1], DROPS)).returncode:
            self.skipTest(f"this kernel has no HTB with u32 filters: {tried.stderr}")
        sockets, _ = self.daemons(names, addresses=(("10.117.0.2/24", "10.117.0.3/24"), ("10.117.0.1/24",)))
        common = ["--daemon", "-s", "65536"]
        ends = []
        for index, more in ((1, ["-D", "30", "-u", "20"]), (0, ["-n", "500"])):
            args = [harness.PERF, "write_bw", "--", *common, *more, "-p", harness.free_port()]
            server = self.start([*args, "--socket", sockets[0], "-x", index], names[0])
            ends.append(self.start([*args, "--socket", sockets[1], "10.199.0.1"], names[1]))
            if index == 1:
                self.wait_for_counter(sockets[1], "kif_tx_dropped")
        self.finish(ends[1], 20)
        self.finish(server, 20)
        self.assertIsNone(ends[0].process.poll(), f"it is to lose frames all the time: {ends[0]}")

    def wait_for_counter(self, socket_, name):
        limit = time.monotonic() + 20 * harness.SLOW
        while self.counters(socket_).get(name, 0) == 0:
            self.assertLess(time.monotonic(), limit, f"{name} stays 0")
            time.sleep(0.05)


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class WithoutSuperFrames(veth.Case):
    """The kernel refuses super-frames (clients/refuse_super_frames.cc)."""

    def refused(self, when):
        return {"LD_PRELOAD": str(harness.BUILD / "tests/system/clients/refuse_super_frames.so"), "UROCE_TEST_REFUSES": when}

    def writes(self, when):
        """Returns what a program with verified WRITEs says about its port."""
        names = self.spaces(1500)
        own = [*IDLE, "--verify", "--interface", "d0", "-s", "65536", "-n", "200", "-p", harness.free_port()]
        server = self.start([harness.PERF, "write_bw", *eal(), "--", *own], names[0])
        client = self.start([harness.PERF, "write_bw", *eal(), "--", *own, "10.199.0.1"], names[1], self.refused(when))
        said = self.finish(client, 60)
        self.finish(server, 60)
        return said

    def test_a_kernel_before_linux_6_2(self):
        said = self.writes("always")
        self.assertIn("single frames (this kernel has no UDP segmentation", said)
        self.assertNotIn("super-frames (UDP", said)

    def test_the_daemon_says_how_it_sends(self):
        names = self.spaces(1500)
        socket_ = self.directory / "s"
        for extra, env, expected in (("", None, "super-frames"), (",super_frames=no", None, "single frames (super_frames=no)"),
                                     ("", self.refused("always"), "single frames (kernel without UDP segmentation)")):
            daemon = self.start([harness.BUILD / "apps/uroced/uroced", *eal(f"--vdev=net_uroce_kif0,iface=d0{extra}"), "--", "--socket",
                                 socket_, "--user", ""], names[0], env)
            daemon.wait_for("serving", 20)
            shown = self.start([harness.BUILD / "apps/uroce/uroce", "devices", "--json", "--socket", socket_])
            self.assertEqual(json.loads(self.finish(shown, 20))[0]["sending"], expected)
            daemon.process.terminate()
            self.finish(daemon, 30)

    def test_a_kernel_that_refuses_them_later(self):
        self.assertIn("the kernel refuses its super-frames", self.writes("later"))


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
