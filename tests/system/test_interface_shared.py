#!/usr/bin/env python3
"""Several programs of uroce on one interface that the kernel keeps: each address belongs to one of them, and each leaves the
others' packets alone."""

import signal
import time
import unittest

import harness
import veth
from veth import alone, by

HELD = "{} on interface d0 is in use by another program of uroce (process {})"
ADVICE = "end that one, use its devices if it is a daemon, or give this port an address of its own (--address, or device.addresses)"


@unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
class Shared(veth.Case):
    def refused(self, program, address, holder):
        """It ends at once with a sentence about the address and its holder."""
        self.assertNotEqual(program.wait(20), 0, str(program))
        self.assertIn(f"{HELD.format(address, self.pid(holder))}; {ADVICE}", program.output)

    def pid(self, program):
        """Of a program in a namespace: `ip netns exec` becomes it."""
        return program.process.pid

    def test_one_address_is_one_programs(self):
        names = self.spaces(1500)
        first = self.serve(names[0])
        self.refused(self.launch(names[0]), "192.0.2.1", first)
        self.refused(self.launch(names[0], "--address", "10.7.0.1/24,192.0.2.1/24"), "192.0.2.1", first)
        perf = self.start([harness.PERF, "write_bw", *harness.eal(), "--", *alone(names[0]).args], names[0])
        self.refused(perf, "192.0.2.1", first)
        # A tag makes another link of it.
        self.serve(names[0], "--vlan", "7", "--address", "192.0.2.1/24")
        other = self.serve(names[1])
        self.finish_both(*self.traffic("write_bw", names, by(first), by(other), "--verify", "-n", "50"))

    def test_a_benchmark_keeps_its_address_while_it_runs(self):
        names = self.spaces(1500)
        self.while_it_lasts(lambda seconds: self.launch_beside_a_benchmark(names, seconds), (3, 30, 120))
        self.serve(names[1])

    def launch_beside_a_benchmark(self, names, seconds):
        server, client = self.traffic("write_bw", names, alone(names[0]), alone(names[1]), "--verify", "-D", seconds)
        client.wait_for("remote address", 20)
        second = self.launch(names[1])
        refused = second.process.poll
        limit = time.monotonic() + 20 * harness.SLOW
        while refused() is None and client.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        if in_time := client.process.poll() is None:
            self.refused(second, "192.0.2.2", client)
        second.kill()
        self.finish_both(server, client)
        return in_time

    def test_after_a_kill_the_next_one_starts_at_once(self):
        names = self.spaces(1500)
        for _ in range(3):
            daemon = self.serve(names[0])
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait(20)
        self.serve(names[0])

    def test_other_addresses_work_side_by_side(self):
        """A daemon with the kernel's addresses, one with its own, and a benchmark beside a daemon on the other host; all
        connect at the same time by rdma_cm."""
        names = self.spaces(1500)
        kernels, own, far = self.serve(names[0]), self.serve(names[0], "--address", "192.0.2.11/24"), self.serve(names[1])
        args = ("-R", "--verify", "-q", "8", "-s", "65536", "-n", "100")
        pairs = [self.traffic("write_bw", names, by(kernels), by(far), *args),
                 self.traffic("read_bw", names, by(own), alone(names[1], "--address", "192.0.2.12/24"), *args)]
        for pair in pairs:
            self.finish_both(*pair)
        for daemon in (kernels, own):
            counters = self.counters_of(daemon)
            self.assertEqual(counters["cm_req_received"], 8)
            self.assertEqual(counters["cm_rej_sent"], 0)
            self.assertEqual(counters["drop_qp_unknown"], 0)
            self.assertEqual(counters["drop_source_not_peer"], 0)
            # 800 messages, and each has a super-frame at least.
            self.assertGreater(counters["drop_address_not_ours"], 400, "the other one's packets came here, too")

    def test_the_link_local_address_is_the_first_ones(self):
        names = self.spaces(1500)
        first = self.serve(names[0], "--address", "192.0.2.11/24")
        second = self.serve(names[0], "--address", "192.0.2.12/24")
        self.assertRegex(second.output, rf"fe80::\S* on interface d0 is in use by another program of uroce \(process {self.pid(first)}\); "
                                        "the device does without")
        far = self.serve(names[1])
        for daemon in (first, second):
            self.finish_both(*self.traffic("write_bw", names, by(daemon), by(far), "--verify", "-n", "50"))

    def test_an_address_that_comes_later(self):
        """By SIGHUP, where it changes nothing, or from the kernel, which asks nobody."""
        names = self.spaces(1500)
        path = self.directory / "uroced.toml"
        path.write_text('[[device]]\naddresses = ["192.0.2.11/24"]\n')
        kernels, own = self.serve(names[0]), self.serve(names[0], "--config", path)
        path.write_text('[[device]]\naddresses = ["192.0.2.12/24", "192.0.2.1/24"]\n')
        own.process.send_signal(signal.SIGHUP)
        own.wait_for(HELD.format("192.0.2.1", self.pid(kernels)), 20)
        shown = self.finish(self.start([veth.UROCE, "devices", "--socket", own.socket]), 20)
        self.assertIn("192.0.2.11", shown)
        self.serve(names[0], "--address", "192.0.2.12/24")  # which the refused settings had
        harness.ip("-n", names[0], "addr", "add", "192.0.2.11/24", "dev", "d0")
        kernels.wait_for(f"{HELD.format('192.0.2.11', self.pid(own))}; the device does without until it starts again", 20)
        harness.ip("-n", names[0], "addr", "add", "192.0.2.13/24", "dev", "d0")
        self.assertNotIn("192.0.2.11", veth.wait_for_devices(self, kernels.socket, "192.0.2.13"))


if __name__ == "__main__":
    harness.main()
