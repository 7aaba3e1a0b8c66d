#!/usr/bin/env python3
"""Debian's rdmacm-utils, and perftest with rdma_cm, unchanged, under uroce-run on two devices joined back to back."""

import random
import re

import harness
import verbs

SERVER, CLIENT = "10.117.0.1", "10.117.0.2"
# Servers do not say that they listen, and who comes before is refused; each program says so in its own words. cmtime
# says it by times of nought.
TOO_EARLY = re.compile(r"REJECTED|UNREACHABLE|refused|rpoll: Operation now|Unexpected CM event|^disconnect +: +0\.00", re.M)


class Case(verbs.Case):
    def run_pair(self, server, client, seconds=40, stays=False):
        """Both outputs. A server that `stays` would serve on: it is ended."""
        first = self.under(*server)
        limit = harness.time.monotonic() + 15 * harness.SLOW
        while True:
            second = self.under(*client)
            try:
                code = second.wait(seconds)
            except AssertionError as hung:
                raise AssertionError(f"{hung}\n{first}") from None
            early = TOO_EARLY.search(second.output) and first.process.poll() is None
            if not early or harness.time.monotonic() > limit:
                break
            harness.time.sleep(0.05)
        self.assertEqual(code, 0, f"{second}\n{first}")
        if stays:
            self.assertIsNone(first.process.poll(), f"the server ended: {first}")
            first.kill()
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
        server = self.under("rping", "-s", "-P", "-a", SERVER)
        for _ in range(3):
            limit = harness.time.monotonic() + 15 * harness.SLOW
            client = self.under("rping", "-c", "-a", SERVER, "-C", "5")
            while client.wait(20) != 0 and TOO_EARLY.search(client.output) and harness.time.monotonic() < limit:
                client = self.under("rping", "-c", "-a", SERVER, "-C", "5")
            self.finish(client, 20)
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
        _, client = self.run_pair(["cmtime", "-b", SERVER], ["cmtime", "-s", SERVER, "-c", "50"], stays=True)
        for step in ("resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"):
            self.assertRegex(client, rf"(?m)^{step} *: +\d")

    def test_rdma_client(self):
        self.run_pair(["rdma_server"], ["rdma_client", "-s", SERVER])

    def test_rdma_xclient(self):
        """Reliable connections, as its server makes without options."""
        self.run_pair(["rdma_xserver"], ["rdma_xclient", "-s", SERVER])


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


class Perftest(Case):
    def run_all(self, programs, *options):
        for program in programs:
            with self.subTest(program=program, options=options):
                command = [program, "-R", "-n", "100", *options]
                _, client = self.run_pair([*command, "-d", "uroce0"], [*command, "-d", "uroce1", SERVER])
                self.assertRegex(client, r"#bytes +#iterations")

    def test_connections(self):
        self.run_all(("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_send_lat"))

    def test_datagrams(self):
        self.run_all(("ib_send_bw", "ib_send_lat"), "-c", "UD", "-s", "1024")

    def test_many_queue_pairs(self):
        self.run_all(("ib_write_bw", "ib_send_bw"), "-q", "8", "-s", "1024")


if __name__ == "__main__":
    harness.main()
