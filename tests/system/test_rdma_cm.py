#!/usr/bin/env python3
"""uroce_perf -R: QPs connected by rdma_cm on in-process stacks and by the daemon, every byte verified."""

import harness
from harness import BUILD, CPUS, IDLE, PERF, eal

UROCED = BUILD / "apps" / "uroced" / "uroced"
WORKER = ",".join(map(str, CPUS[:2])) if len(CPUS) > 1 else f"(0,1)@{CPUS[0]}"
VERIFIED = ("-R", "--verify", *IDLE, "-s", "65536", "-n", "200")


class InOneProcess(harness.Case):
    """Two devices of one stack."""

    def test_each_verb_in_one_thread(self):
        for test in ("write_bw", "read_bw", "send_bw"):
            self.run_perf(test, eal(), "--back-to-back", *VERIFIED)
        report = self.run_perf("atomic_bw", eal(), "--back-to-back", "-R", "--verify", *IDLE, "-n", "500")
        self.assertEqual(report["test_info"]["rdma_cm_QPs"], "ON")

    def test_with_a_worker_lcore(self):
        self.run_perf("write_bw", eal(lcores=WORKER), "--back-to-back", *VERIFIED)

    def test_while_engines_sleep(self):
        self.run_perf("send_lat", eal(lcores=WORKER), "--back-to-back", "-R", "--idle", "sleep", "-n", "200")

    def test_a_thousand_qps(self):
        self.run_perf("write_bw", eal(), "--back-to-back", "-R", "--verify", *IDLE, "-q", "1000", "-n", "5", "-t", "1", "-s", "64")


class BetweenProcesses(harness.Case):
    """Two stacks, or a stack and a daemon, on one host."""

    def ports(self):
        socket = self.directory / "m.sock"
        return [f"--vdev=net_memif0,role={role},socket={socket}" for role in ("server", "client")]

    def daemon(self, port, address):
        path = self.directory / "uroced.sock"
        daemon = self.start([UROCED, *eal(port), "--", "--socket", path, "--address", address, "--user", ""])
        return daemon, ["--daemon", "--socket", path]

    def test_two_stacks(self):
        server, client = self.ports()
        self.run_pair("write_bw", eal(server), eal(client), *VERIFIED, "-q", "16")

    def test_two_stacks_with_worker_lcores(self):
        server, client = self.ports()
        self.run_pair("read_bw", eal(server, lcores=WORKER), eal(client, lcores=WORKER), *VERIFIED)

    def test_ipv6(self):
        server, client = self.ports()
        self.run_pair("send_bw", eal(server), eal(client), *VERIFIED, server_args=("--address", "2001:db8::1/64"),
                      client_args=("--address", "2001:db8::2/64"))

    def test_frames_get_lost(self):
        server, client = self.ports()
        self.run_pair("write_bw", eal(server), eal(client), *VERIFIED, "--receive-loss", "0.02")

    def test_a_stack_beside_the_daemon(self):
        server, client = self.ports()
        daemon, through = self.daemon(server, "10.117.0.1/24")
        stack = self.start([PERF, "write_bw", *eal(client), "--", *VERIFIED, "-p", (port := harness.free_port()),
                            "--address", "10.117.0.2/24"])
        daemon.wait_for("serving", 20)
        program = self.start([PERF, "write_bw", "--", *VERIFIED, "-p", port, *through, "127.0.0.1"])
        self.finish(program, 60)
        self.finish(stack, 60)

    def test_only_one_side_asks_for_it(self):
        server, client = self.ports()
        pair = self.start_pair("write_bw", eal(server), eal(client), *IDLE, client_args=("-R",))
        for program in pair:
            self.assertEqual(program.wait(60), 1, str(program))
        self.assertIn("-R is", pair[0].output)


class ThroughTheDaemon(harness.Case):
    def test_two_devices(self):
        path = self.directory / "uroced.sock"
        self.start([UROCED, *eal(), "--", "--demo", "--socket", path, "--user", ""]).wait_for("serving", 20)
        self.run_pair("write_bw", [], [], *VERIFIED, "--daemon", "--socket", path, server_args=("-d", "uroce0"),
                      client_args=("-d", "uroce1"))


if __name__ == "__main__":
    harness.main()
