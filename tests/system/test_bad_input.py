#!/usr/bin/env python3
"""Each fault is reported in one sentence, with a non-zero exit code, in bounded time."""

import signal
import socket
import struct
import time
import unittest

import harness
from harness import IDLE, eal

RUN_FAILED, UNUSABLE = 1, 2


class CommandLine(harness.Case):
    def refused(self, eal_args, *args, says, code=(RUN_FAILED, UNUSABLE), seconds=20, test="write_bw"):
        """The program ends with one of these codes, and its last line has these words."""
        program = self.start([harness.PERF, *([test] if test else []), *eal_args, "--", *args])
        got = program.wait(seconds)
        self.assertIn(got, (code,) if isinstance(code, int) else code, str(program))
        lines = [line for line in program.output.splitlines() if line.strip()]
        self.assertTrue(lines, str(program))
        for word in says:
            self.assertIn(word, lines[-1], str(program))

    def test_unknown_eal_option(self):
        self.refused(["--no-such-eal-option"], "--back-to-back", says=["--no-such-eal-option"])

    def test_malformed_lcore_list(self):
        self.refused(eal(lcores="zero"), "--back-to-back", says=["zero"])

    def test_lcore_that_does_not_exist(self):
        self.refused(eal(lcores="4000"), "--back-to-back", says=["4000"])

    def test_malformed_device(self):
        self.refused(eal("--vdev=net_no_such_driver0"), says=["net_no_such_driver0"])

    def test_unknown_option(self):
        self.refused(eal(), "--no-such-option", says=["--no-such-option"], code=UNUSABLE)

    def test_no_test_named(self):
        self.refused(eal(), "--back-to-back", says=["write"], code=UNUSABLE, test=None)

    def test_value_out_of_range(self):
        self.refused(eal(), "--back-to-back", "-m", "5000", says=["5000"], code=UNUSABLE)
        self.refused(eal(), "--back-to-back", "-s", "3G", says=["-"], code=UNUSABLE)
        self.refused(eal(), "--back-to-back", "-q", "0", says=["0"], code=UNUSABLE)

    def test_no_port(self):
        self.refused(eal(), says=["port"])

    def test_missing_interface(self):
        self.refused(eal("--vdev=net_af_packet0,iface=nosuchif0"), says=["nosuchif0"])

    def test_malformed_address(self):
        self.refused(eal(), "--back-to-back", "--address", "300.1.2.3/24", says=["300.1.2.3"])

    def test_port_mtu_too_large(self):
        # memif carries what its buffers hold; net_ring anything. A path MTU that the port's MTU cannot carry is refused.
        self.refused(eal(), "--back-to-back", "--port-mtu", "1500", "-m", "4096", says=["4096", "1024", "--port-mtu"])

    def test_server_port_taken(self):
        with socket.socket() as s:
            s.bind(("0.0.0.0", 0))
            s.listen()
            port = str(s.getsockname()[1])
            self.refused(eal(f"--vdev=net_memif0,role=server,socket={self.directory}/m.sock"), "-p", port, says=[port])

    def test_nobody_at_the_tcp_port(self):
        port = str(harness.free_port())
        self.refused(eal("--vdev=net_ring0"), "-p", port, "--connect-timeout", "2", "127.0.0.1", says=["127.0.0.1", port])

    def test_device_that_does_not_exist(self):
        self.refused(eal(), "--back-to-back", "-d", "uroce9", says=["uroce9"])


class Peers(harness.Case):
    def memif_pair(self, test, *args, server_args=(), client_args=()):
        path = self.directory / "m.sock"
        return self.start_pair(
            test, eal(f"--vdev=net_memif0,role=server,socket={path}"),
            eal(f"--vdev=net_memif0,role=client,socket={path}"), *IDLE, *args, server_args=server_args, client_args=client_args)

    def fails(self, program, seconds, *words):
        self.assertEqual(program.wait(seconds), RUN_FAILED, str(program))
        last = [line for line in program.output.splitlines() if line.strip()][-1]
        for word in words:
            self.assertIn(word, last, str(program))

    def test_address_that_nobody_answers(self):
        # Each on a ring of its own: the TCP exchange works, the RoCE port leads nowhere.
        server, client = self.start_pair("write_bw", eal("--vdev=net_ring0"), eal("--vdev=net_ring0"), *IDLE, "-n", "10")
        self.fails(client, 30, "10.117.0.1")
        self.assertNotEqual(server.wait(30), 0, str(server))

    def killed(self, victim_index):
        pair = self.memif_pair("write_bw", "-s", "65536", "-D", "600", "--peer-timeout", "20")
        victim, witness = pair[victim_index], pair[1 - victim_index]
        pair[1].wait_for("#bytes", 30)
        time.sleep(2)  # traffic passes as a rule
        self.assertIsNone(victim.process.poll(), str(victim))
        victim.process.send_signal(signal.SIGKILL)
        self.fails(witness, 60)

    def test_server_killed_in_mid_transfer(self):
        self.killed(0)

    def test_client_killed_in_mid_transfer(self):
        self.killed(1)

    def test_client_interrupted(self):
        server, client = self.memif_pair("write_bw", "-s", "65536", "-D", "600", "--peer-timeout", "20")
        client.wait_for("#bytes", 30)
        time.sleep(1)  # traffic passes as a rule
        client.process.send_signal(signal.SIGINT)
        client.wait(30)
        self.assertNotEqual(server.wait(60), 0, str(server))

    def test_both_signals_of_timeout_are_one_request(self):
        """timeout(1) passes a signal to the program, and to the group that both are in."""
        program = self.start(["timeout", "300", harness.PERF, "write_bw", *eal(), "--", "--back-to-back", *IDLE, "-D", "60"])
        program.wait_for("#bytes", 30)
        program.process.send_signal(signal.SIGTERM)
        self.fails(program, 20, "interrupted")

    def raw_interrupted(self, test, title, victim_index, sent):
        """Both sides end long before their ten minutes, with a result; the one interrupted says so."""
        pair = self.memif_pair(test, "-s", "1024", "-D", "600", "--peer-timeout", "30")
        for program in pair:
            program.wait_for(title, 30)  # frames pass
        victim, witness = pair[victim_index], pair[1 - victim_index]
        self.assertIsNone(victim.process.poll(), str(victim))
        victim.process.send_signal(sent)
        self.fails(victim, 20, "interrupted")
        self.assertEqual(witness.wait(20), 0, str(witness))
        for program in pair:
            self.assertRegex(program.output, r"(?m)^ 1024 +\d", str(program))

    def test_raw_client_interrupted(self):
        self.raw_interrupted("raw_bw", "Raw frame BW Test", 1, signal.SIGINT)

    def test_raw_server_interrupted(self):
        self.raw_interrupted("raw_bw", "Raw frame BW Test", 0, signal.SIGTERM)

    def test_raw_latency_client_interrupted(self):
        self.raw_interrupted("raw_lat", "Raw frame Latency Test", 1, signal.SIGTERM)

    def test_raw_latency_server_interrupted(self):
        self.raw_interrupted("raw_lat", "Raw frame Latency Test", 0, signal.SIGINT)

    def test_memif_server_that_has_not_started_its_port(self):
        """It refuses a client, as DPDK's server does between its probe and its start. The client tries again."""
        path = self.directory / "m.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(20 * harness.SLOW)
            server, client = self.start_pair(
                "raw_bw", eal("--vdev=net_ring0"), eal(f"--vdev=net_memif0,role=client,socket={path},socket-abstract=no"), *IDLE)
            for _ in range(2):
                self.refuse_memif_client(listener)
        for program in (server, client):
            program.process.terminate()
        self.fails(client, 20, "interrupted before the link was up")

    def refuse_memif_client(self, listener):
        HELLO, INIT, DISCONNECT, VERSION = 2, 3, 8, 0x0200
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(20 * harness.SLOW)
            hello = struct.pack("<H32s5HB", HELLO, b"a server", VERSION, VERSION, 0, 0, 0, 14)
            peer.sendall(hello.ljust(128, b"\0"))
            self.assertEqual(struct.unpack_from("<H", peer.recv(128)), (INIT,))
            peer.sendall(struct.pack("<HI96s", DISCONNECT, 0, b"ID not found").ljust(128, b"\0"))
            while peer.recv(128):
                pass

    def test_tests_that_do_not_match(self):
        port = harness.free_port()
        path = self.directory / "m.sock"
        common = ["-p", port, *IDLE]
        server = self.start([harness.PERF, "write_bw", *eal(f"--vdev=net_memif0,role=server,socket={path}"), "--", *common])
        client = self.start([harness.PERF, "read_bw", *eal(f"--vdev=net_memif0,role=client,socket={path}"), "--", *common,
                             "127.0.0.1"])
        self.assertNotEqual(client.wait(30), 0, str(client))
        self.assertNotEqual(server.wait(30), 0, str(server))


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class KernelPorts(harness.Case):
    def test_port_down(self):
        with harness.Namespaces() as spaces:
            # The far end is down, so the link has no carrier.
            harness.ip("-n", spaces.names[1], "link", "set", "d0", "down")
            program = self.start([harness.PERF, "write_bw", *eal("--vdev=net_af_packet0,iface=d0"), "--", *IDLE,
                                  "--connect-timeout", "5", "-p", harness.free_port()], spaces.names[0])
            self.assertNotEqual(program.wait(30), 0, str(program))
            self.assertIn("down", program.output.splitlines()[-1], str(program))

    def test_mtu_too_large_for_the_interface(self):
        with harness.Namespaces(mtu=1500) as spaces:
            program = self.start([harness.PERF, "write_bw", *eal("--vdev=net_af_packet0,iface=d0"), "--", *IDLE,
                                  "--connect-timeout", "5", "-m", "4096", "-p", harness.free_port()], spaces.names[0])
            self.assertNotEqual(program.wait(30), 0, str(program))
            self.assertIn("4096", program.output.splitlines()[-1], str(program))


if __name__ == "__main__":
    harness.main()
