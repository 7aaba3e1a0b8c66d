#!/usr/bin/env python3
"""A restart by the service manager, which keeps for the next daemon what the one before leaves."""

import os
import re
import signal
import socket
import struct
import unittest

import harness
import veth
from harness import eal
from replacing import HANDED_OVER
from service_manager import ServiceManager
from veth import by

LEFT = r"the service manager keeps (\d+) queue pairs for the next uroced, 0 clients refused"
TOOK = r"took over from process {}, uroced \S+: frozen (\d+) ms, (\d+) queue pairs, 0 clients refused"
RESTARTS = int(os.environ.get("UROCE_RESTARTS", "3"))


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Restart(veth.Case):
    def setUp(self):
        super().setUp()
        self.names = self.spaces(1500)
        self.path = self.directory / "uroced.sock"

    def run_service(self, manager, *args, space=0, user="", path=None):
        """The daemon, serving."""
        command = [veth.UROCED, *eal(), "--", "--interface", "d0", "--socket", path or self.path, "--user", user, *args]
        one = manager.start(command, self.names[space])
        one.space, one.socket = self.names[space], path or self.path
        one.wait_for("serving uroce0", 20)
        manager.wait_for("READY")
        return one

    def stop(self, daemon, code=0):
        daemon.process.send_signal(signal.SIGTERM)
        return self.finish(daemon, 40, code)

    def traffic_to(self, server, client, test="write_bw", seconds=3, retries=veth.PATIENT):
        pair = self.traffic(test, self.names, by(server), by(client), *retries, "-D", str(seconds), "--verify", "-s",
                            "65536")
        for one in pair:
            one.wait_for("#bytes", 20)
        return pair

    def assert_shown(self, daemon, before):
        """`uroce show restart` and `uroce doctor` tell of the last restart and of the next one."""
        (row,) = harness.loads(self.finish(self.start([veth.UROCE, "show", "restart", "--json", "--socket", daemon.socket]), 30))
        self.assertEqual((row["last"]["from_process"], row["last"]["queue_pairs"], row["last"]["clients_refused"]), (before, 1, 0))
        self.assertEqual(str(row["last"]["frozen_ms"]), re.search(r"frozen (\d+) ms", daemon.output).group(1))
        self.assertEqual(row["next"], {"seamless": True, "kept_by_service_manager": True, "obstacles": []})
        shown = self.finish(self.start([veth.UROCE, "show", "restart", "--socket", daemon.socket]), 30)
        self.assertRegex(shown, r"last queue_pairs +1\n(?s:.*)next +seamless")
        doctor = self.start([veth.UROCE, "doctor", "--socket", daemon.socket], daemon.space)
        doctor.wait(30)
        self.assertIn("queue pairs outlive the next restart, by the service manager, too", doctor.output)

    def restart(self, manager, daemon, user):
        """The next daemon, and how many milliseconds nothing moved. None where the traffic has ended meanwhile."""
        self.assertRegex(self.stop(daemon), LEFT)
        self.assertEqual(list(manager.stored), ["uroce-estate"])
        after = self.run_service(manager, user=user)
        took = re.search(TOOK.format(daemon.process.pid), after.output)
        self.assertIsNotNone(took, after.output)
        frozen_ms, queue_pairs = map(int, took.groups())
        return after, frozen_ms if queue_pairs else None

    def restarts(self, test, user=""):
        far, manager = self.serve(self.names[1]), ServiceManager(self, watchdog_us=20_000_000)
        frozen = []

        def restarted_meanwhile(seconds):
            daemon = self.run_service(manager, user=user)
            pair = self.traffic_to(daemon, far, test, seconds)
            for _ in range(RESTARTS):
                before = daemon.process.pid
                daemon, frozen_ms = self.restart(manager, daemon, user)
                if frozen_ms is None:
                    break
                frozen.append(frozen_ms)
                self.assert_shown(daemon, before)
                manager.wait_for("FDSTOREREMOVE")
                manager.wait_for("WATCHDOG")
                self.assertEqual(manager.stored, {})
            lasted = frozen_ms is not None and all(one.process.poll() is None for one in pair)
            self.finish_both(*pair)
            self.stop(daemon)
            manager.drop()
            return lasted

        self.while_it_lasts(restarted_meanwhile, [seconds + 2 * RESTARTS for seconds in (3, 30, 120)])
        print(f"# {test}: {len(frozen)} restarts, frozen {min(frozen)} to {max(frozen)} ms")

    def test_writes(self):
        self.restarts("write_bw")

    def test_sends(self):
        self.restarts("send_bw")

    def test_as_an_ordinary_user(self):
        self.directory.chmod(0o777)
        self.restarts("read_bw", user="games")

    def test_a_stop_ends_the_clients(self):
        far, manager = self.serve(self.names[1]), ServiceManager(self)
        daemon = self.run_service(manager)
        client = self.traffic_to(far, daemon, seconds=60)[1]
        self.assertRegex(self.stop(daemon), LEFT)
        manager.drop()
        self.assertNotEqual(client.wait(20), 0)
        self.assertRegex(client.output, "flushed|Input/output error")  # of a completion, or of the next post

    def test_no_store(self):
        """Without one the daemon ends its clients itself, as by any other SIGTERM."""
        for manager in (ServiceManager(self, room=None), ServiceManager(self, room=0)):
            daemon = self.run_service(manager)
            self.assertIn("ending 0 connections", self.stop(daemon))
            self.assertFalse(self.path.exists())

    def test_other_settings(self):
        """The facts that peers know are others: the clients end, and the daemon starts as if there had been none. The
        service manager is slow to close the lock of the socket."""
        far, manager = self.serve(self.names[1]), ServiceManager(self, delay_s=1)
        daemon = self.run_service(manager)
        pair = self.traffic_to(daemon, far, seconds=60, retries=())
        self.stop(daemon)
        after = self.run_service(manager, "--set", "engines.max_qp=64")
        self.assertIn("engines.max_qp, rounded up to a power of two, is 16384 in the running daemon and 64 in its successor", after.output)
        self.assertIn("the clients of the uroced before end", after.output)
        self.assertEqual(after.output.count("serving uroce0"), 1)
        self.assertNotEqual(pair[0].wait(20), 0)
        self.assertEqual(manager.stored, {})
        self.finish_both(*self.traffic("write_bw", self.names, by(after), by(far), "-R", "--verify", "-n", "50"))
        self.stop(after)

    def forged(self):
        """Sockets with packets that no daemon leaves."""
        def socket_with(*packets):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for packet in packets:
                ours.send(packet)
            ours.close()
            return theirs.detach()
        yield socket_with()
        yield socket_with(b"\0")
        yield socket_with(struct.pack("<HiI", 8, 0, 0))
        yield socket_with(struct.pack("<HiI", 8, 0, 0) + bytes(8))
        yield socket_with(struct.pack("<HiI", 1, 0, 0) + struct.pack("<IB", 0, 1))
        yield os.open("/dev/null", os.O_RDONLY)
        yield os.memfd_create("rows")

    def test_what_no_daemon_left(self):
        manager = ServiceManager(self)
        for fd in self.forged():
            manager.stored = {"uroce-estate": fd}
            daemon = self.run_service(manager)
            self.assertIn("the clients of the uroced before end", daemon.output)
            self.assertEqual(manager.stored, {})
            self.stop(daemon)
            manager.drop()

    def restart_with(self, change):
        """A daemon with a client ends, and another starts with what `change` makes of the packets that it left."""
        manager = ServiceManager(self)
        daemon = self.run_service(manager)
        pair = self.traffic_to(self.far, daemon, seconds=600)
        self.stop(daemon)
        packets = []
        with socket.socket(fileno=manager.stored.pop("uroce-estate")) as left:
            while not packets or packets[-1][0]:
                packets.append(socket.recv_fds(left, 1 << 16, 253)[:2])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for data, fds in change(packets[:-1]):
            socket.send_fds(ours, [data], fds)
        for fd in (fd for _, fds in packets for fd in fds):
            os.close(fd)
        ours.close()
        manager.stored = {"uroce-estate": theirs.detach()}
        after = self.run_service(manager)
        self.assertEqual(after.output.count("serving uroce0"), 1)
        self.assertNotEqual(pair[1].wait(20), 0)
        pair[0].kill()
        self.assertEqual(manager.stored, {})
        self.stop(after)
        manager.drop()
        return len(packets) - 1, after.output

    def test_cut_short(self):
        """The clients end, and the daemon serves, whatever is missing."""
        self.far = self.serve(self.names[1])
        count, output = self.restart_with(lambda packets: packets[:1])
        self.assertGreaterEqual(count, 5)
        self.assertIn("starting without them", output)
        # All that the ports need is there from the second packet on.
        for kept in range(2, 4):
            self.assertIn("clients of the uroced before end", self.restart_with(lambda packets, kept=kept: packets[:kept])[1])

        def half_of_the_rows(packets):
            rows = packets[2][1][0]
            os.ftruncate(rows, os.fstat(rows).st_size // 2)
            return packets
        self.assertIn("does not begin with its rows", self.restart_with(half_of_the_rows)[1])

class Beside(Restart):
    """A control process of the service replaces its main process."""

    def test_it_becomes_the_main_process(self):
        manager = ServiceManager(self, watchdog_us=20_000_000)
        first = self.run_service(manager)
        second = self.run_service(manager, "--replace")
        self.finish(first, 20)
        self.assertRegex(first.output, HANDED_OVER.format(second.process.pid))
        manager.wait_for("MAINPID")
        self.assertEqual(manager.main_pid, second.process.pid)
        manager.wait_for("WATCHDOG")
        self.stop(second)


for _name in [name for name in dir(Restart) if name.startswith("test_")]:
    setattr(Beside, _name, None)


if __name__ == "__main__":
    harness.main()
