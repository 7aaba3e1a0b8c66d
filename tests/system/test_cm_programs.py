#!/usr/bin/env python3
"""Debian's rdmacm-utils, perftest with rdma_cm, librspreload and test_rdmacm under uroce-run, on two devices joined."""

import glob
import json
import random
import re
import sys

import harness
import preload
import verbs
from harness import free_port

sys.path.insert(0, str(harness.SOURCE / "tests" / "abi"))
import rdma_core_tests  # noqa: E402

SERVER, CLIENT = "10.117.0.1", "10.117.0.2"


class Case(verbs.Case):
    def serve(self, command, namespace=None, at="listen"):
        """A server, from when it listens."""
        self.need(command[0])
        own = f"LD_PRELOAD={preload.TELLS}:"
        command = [str(word).replace("LD_PRELOAD=", own) for word in command]
        server, self.told = preload.start_server(self, self.words(*command), namespace, self.env, at)
        return server

    def run_pair(self, server, client, seconds=40, stays=False, namespaces=(None, None), at="listen", twice=False):
        """Both outputs. A server that `stays` would serve on: it is ended. One that listens `twice` is waited for again."""
        first = self.serve(server, namespaces[0], at)
        again = {"UROCE_TEST_CONNECTS_AGAIN_AFTER": f"{self.told}.2"} if twice else {}
        second = self.start(self.words(*client), namespace=namespaces[1], env={**self.env, **preload.ENVIRONMENT, **again})
        try:
            code = second.wait(seconds)
        except AssertionError as hung:
            raise AssertionError(f"{hung}\n{first}") from None
        self.assertEqual(code, 0, f"{second}\n{first}")
        if stays:
            self.assertIsNone(first.process.poll(), f"the server ended: {first}")
            first.kill()  # the next server has its port at once
            return first.output, second.output
        return self.finish(first, seconds), second.output


class Utilities(Case):
    def test_rping(self):
        for options in (["-C", "10", "-v"], ["-C", "50", "-S", "64", "-V"], ["-C", "50", "-S", "65000", "-V"]):
            with self.subTest(options=options):
                server, client = self.run_pair(
                    ["rping", "-s", "-a", SERVER, *options], ["rping", "-c", "-a", SERVER, *options])
                if "-v" in options:
                    self.assertEqual(client.count("ping data: rdma-ping-"), 10, client)
                    self.assertIn("server ping data: rdma-ping-9", server)

    def test_rping_serves_many(self):
        """Its persistent server takes one client after the other."""
        server = self.serve(["rping", "-s", "-P", "-a", SERVER])
        for _ in range(3):
            command = ["rping", "-c", "-a", SERVER, "-C", "5"]
            self.finish(self.start(self.words(*command), env={**self.env, **preload.ENVIRONMENT}), 20)
        self.assertIsNone(server.process.poll(), str(server))
        server.kill()

    def test_ucmatose(self):
        for options in ([], ["-c", "100"], ["-C", "50", "-S", "20000"], ["-m"]):
            with self.subTest(options=options):
                outputs = self.run_pair(
                    ["ucmatose", "-b", SERVER, *options], ["ucmatose", "-s", SERVER, *options])
                for output in outputs:
                    self.assertIn("return status 0", output)

    def test_udaddy(self):
        for options in ([], ["-c", "20"]):
            with self.subTest(options=options):
                outputs = self.run_pair(["udaddy", "-b", SERVER, *options], ["udaddy", "-s", SERVER, *options])
                for output in outputs:
                    self.assertIn("return status 0", output)

    def test_mckey(self):
        group = "239.1.2.3"
        receiver = self.under("stdbuf", "-oL", "mckey", "-m", group, "-b", SERVER)
        receiver.wait_for("joined", 20)
        sender = self.under("mckey", "-m", group, "-b", CLIENT, "-s")
        self.assertIn("return status 0", self.finish(sender, 40))
        self.assertIn("return status 0", self.finish(receiver, 40))

    def test_cmtime(self):
        usage = self.under("cmtime", "-h")
        usage.wait(20)
        if "mimic" in usage.output:
            client = self.newer_cmtime(usage.output)
            steps = ("resolve addr", "resolve route", "create qp", "cm connect", "disconnect", "destroy id")
        else:
            _, client = self.run_pair(["cmtime", "-b", SERVER], ["cmtime", "-s", SERVER, "-c", "50"], stays=True)
            steps = ("resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy")
        for step in steps:
            self.assertRegex(client, rf"(?m)^{step} *:? +\d")

    def newer_cmtime(self, usage):
        """Since rdma-core 56 its two sides talk by TCP before they connect, so the kernel needs the addresses."""
        self.needs_netns()
        server, client = f"-b {SERVER}", f"-s {SERVER}"
        if "-C controller_address" in usage:  # rdma-core 65
            server, client = f"-L -b {SERVER} -C {SERVER} -P 2", f"-b {CLIENT} -C {SERVER} -P 2"
        wait = f"until ss -Htln src {SERVER} | grep -q .; do sleep 0.1; done"
        return self.shell(f"cmtime {server} -c 50 >/dev/null & {wait}; cmtime {client} -c 50 && wait $!", 60, "--netns")

    def test_rdma_client(self):
        self.run_pair(["rdma_server"], ["rdma_client", "-s", SERVER])

    def test_rdma_xclient(self):
        for kind in ("r", "x"):
            with self.subTest(kind=kind):
                for output in self.run_pair(["rdma_xserver", "-c", kind], ["rdma_xclient", "-c", kind, "-s", SERVER]):
                    self.assertIn("end 0", output)


class Rsockets(Case):
    def test_rcopy(self):
        seed = random.randrange(2**32)
        source, copy = self.directory / "source", self.directory / "copy"
        for size in (1, 100_000, 5_000_000):
            with self.subTest(size=size, seed=seed):
                source.write_bytes(random.Random(seed).randbytes(size))
                copy.unlink(missing_ok=True)
                self.run_pair(["rcopy"], ["rcopy", source, f"{SERVER}:{copy}"], stays=True)
                self.assertEqual(copy.read_bytes(), source.read_bytes())

    def run_stream(self, program, *options):
        with self.subTest(program=program, options=options):
            for output in self.run_pair([program, "-b", SERVER, *options], [program, "-s", SERVER, *options], seconds=60):
                self.assertRegex(output, r"(?m)^custom +\d.*s +\d+\.\d+ +\d+\.\d+$")

    def test_rstream(self):
        small = ["-I", "20", "-C", "5"]
        for options in (["-S", "64"], ["-S", "4096"], ["-S", "100000"]):
            self.run_stream("rstream", *small, *options)
        self.run_stream("rstream", *small, "-S", "20000", "-B", "8192")
        self.run_stream("rstream", *small, "-S", "64", "-i", "0")
        self.run_stream("rstream", *small, "-S", "64", "-i", "256", "-k", "1")

    def test_rstream_ways_of_waiting(self):
        small = ["-I", "20", "-C", "5", "-S", "10000"]
        for way in ("a", "b", "n", "r"):
            self.run_stream("rstream", *small, "-T", way)

    def test_rstream_verifies_its_bytes(self):
        for size in ("100", "3000", "50000"):
            self.run_stream("rstream", "-I", "20", "-C", "5", "-S", size, "-T", "v")

    def test_riostream(self):
        for size in ("64", "10000"):
            self.run_stream("riostream", "-I", "10", "-C", "2", "-S", size)


    def test_udpong(self):
        """Datagrams, where the kernel has no such addresses: the peers ask each other's connection manager."""
        for options in ([], ["-T", "e"], ["-S", "1000", "-T", "e"]):
            with self.subTest(options=options):
                small = ["-C", "20", *options]
                _, client = self.run_pair(
                    ["udpong", "-b", SERVER, *small], ["udpong", "-s", SERVER, *small], stays=True, at="bind")
                self.assertRegex(client, r"(?m)^custom +\d")

    def test_udpong_introduced_by_the_kernel(self):
        """As rdma-core's rsockets do it: the first datagrams go over UDP."""
        if not harness.may_make_namespaces():
            self.skipTest("may not make network namespaces (needs root)")
        with harness.Namespaces() as namespaces:
            for name, address in zip(namespaces.names, (SERVER, CLIENT)):
                harness.ip("-n", name, "addr", "add", f"{address}/24", "dev", "c0")
            small = ["-C", "20", "-T", "e"]
            _, client = self.run_pair(["udpong", "-b", SERVER, *small], ["udpong", "-s", SERVER, *small],
                                      stays=True, namespaces=namespaces.names, at="bind")
            self.assertRegex(client, r"(?m)^custom +\d")

    def preloaded(self, *command):
        """The same with Debian's library that turns a program's sockets into rsockets."""
        found = sorted(glob.glob("/usr/lib/*/rsocket/librspreload.so"))
        if not found:
            self.skipTest("librspreload.so is not installed; config/packages.txt names its package")
        return ["env", f"LD_PRELOAD={found[0]}", *command]

    def test_servers_of_languages_preloaded(self):
        """They create sockets with SOCK_CLOEXEC and accept with accept4(), which librspreload does not have."""
        seed = random.randrange(2**32)
        sent = random.Random(seed).randbytes(300_000)
        (self.directory / "sent").write_bytes(sent)
        fetch = ("import socket; s = socket.create_connection((%r, 8000)); s.sendall(b'GET /sent HTTP/1.0\\r\\n\\r\\n');"
                 "open('got', 'wb').write(b''.join(iter(lambda: s.recv(65536), b'')).partition(b'\\r\\n\\r\\n')[2])")
        python = ["/usr/bin/python3", "-m", "http.server", "--bind", SERVER, "8000"]
        perl = ["perl", "-MIO::Socket::INET", "-e", """
            my $l = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => 8000, Listen => 5) or die "$@ $!";
            my $c = $l->accept or die "accept: $!";
            1 while defined($_ = <$c>) and /\\S/;
            local $/; open my $f, "<", "sent"; print $c "HTTP/1.0 200 OK\\r\\n\\r\\n", <$f>; close $c""", SERVER]
        for server in (python, perl):
            with self.subTest(server=server[0], seed=seed):
                self.need(server[0])
                got = self.directory / "got"
                got.unlink(missing_ok=True)
                running = self.serve(self.preloaded(*server))
                client = self.start([verbs.RUN, *self.preloaded("/usr/bin/python3", "-c", fetch % SERVER)], env=self.env)
                self.finish(client, 40)
                self.assertTrue(got.read_bytes() == sent, f"{client}\n{running}")
                running.kill()

    def test_iperf3_preloaded(self):
        """A TCP program. The kernel has none of its addresses, so nothing can go by TCP instead.

        The client ends the test when it has sent all its bytes, and the server counts what it has read by then. It may
        miss the bytes in the buffers of two rsockets, and one block."""
        self.need("iperf3")
        sent, under_way = 20 << 20, 512 << 10
        outputs = self.run_pair(
            self.preloaded("iperf3", "--json", "-s", "-1", "-B", SERVER),
            self.preloaded("iperf3", "--json", "-c", SERVER, "-n", str(sent)))
        server, client = (json.loads(output) for output in outputs)
        for report in (server, client):
            # It asks for the name of TCP's congestion control, which rsockets do not have.
            self.assertIn(report.get("error"), (None, "getsockopt - Operation not supported"))
            self.assertGreaterEqual(report["end"]["sum_received"]["bytes"], sent - under_way)
            self.assertLessEqual(report["end"]["sum_received"]["bytes"], sent)
        self.assertEqual(client["end"]["sum_sent"]["bytes"], sent)
        self.assertEqual(client["end"]["sum_received"]["bytes"], server["end"]["sum_received"]["bytes"])


class Pyverbs(Case):
    def test_rdmacm(self):
        """rdma-core's test_rdmacm. It asks the kernel for a device's address: an interface with the port's MAC has it."""
        if reason := rdma_core_tests.missing():
            self.skipTest(reason)
        if not harness.may_make_namespaces():
            self.skipTest("may not make network namespaces (needs root)")
        guid = re.search(r"uroce0\s+([0-9a-f]{16})", self.finish(self.under("ibv_devices"), 20)).group(1)
        eui = bytes.fromhex(guid)
        mac = bytes([eui[0] ^ 2, *eui[1:3], *eui[5:]]).hex(":")
        folder = rdma_core_tests.unpack(self.directory / "tests")
        with harness.Namespaces() as namespaces:
            name = namespaces.names[0]
            harness.ip("-n", name, "link", "set", "c0", "address", mac)
            harness.ip("-n", name, "addr", "flush", "dev", "c0")
            harness.ip("-n", name, "addr", "add", f"{SERVER}/24", "dev", "c0")
            program = self.start([verbs.RUN, "/usr/bin/python3", folder / "run_tests.py", "-v", "tests.test_rdmacm"],
                                 namespace=name, env=self.env)
            output = self.finish(program, 200)
        self.assertEqual(len(re.findall(r"\.\.\. ok$", output, re.M)), 10, output)


class Perftest(Case):
    def run_all(self, programs, *options):
        for program in programs:
            with self.subTest(program=program, options=options):
                self.assertRegex(self.calibrated(program, "-R", "-n", "100", *options), r"#bytes +#iterations")

    def calibrated(self, *command, tries=5):
        """The client's output. As verbs.Case.pair(): once more where perftest could not calibrate the processor's clock."""
        port = ("-p", free_port())
        try:
            return self.run_pair([*command, *port, "-d", "uroce0"], [*command, *port, "-d", "uroce1", SERVER], twice=True)[1]
        except AssertionError as failed:
            if verbs.CLOCK_UNKNOWN not in str(failed) or tries == 1:
                raise
            return self.calibrated(*command, tries=tries - 1)

    def test_connections(self):
        self.run_all(("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_send_lat"))

    def test_datagrams(self):
        self.run_all(("ib_send_bw", "ib_send_lat"), "-c", "UD", "-s", "1024")

    def test_many_queue_pairs(self):
        self.run_all(("ib_write_bw", "ib_send_bw"), "-q", "8", "-s", "1024")


class Cancelled(Case):
    def test_threads_end_after_their_calls(self):
        """pthread_cancel acts in waits for events alone. A call that it ended would leave objects half made, and one that
        destroys an object would end the program."""
        program = harness.BUILD / "tests" / "system" / "clients" / "client_cancelled"
        if not program.exists():
            self.skipTest("client_cancelled is not built; it needs the development files of librdmacm")
        output = self.finish(self.start([verbs.RUN, program, SERVER], env=self.env), 60)
        self.assertIn("all calls completed", output)


if __name__ == "__main__":
    harness.main()
