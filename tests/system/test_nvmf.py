#!/usr/bin/env python3
"""uroce_nvmf and a host of NVMe over Fabrics of our own, on a veth pair, and beside one daemon."""

import os
import re
import signal
import time
import unittest

import harness
from harness import BUILD, eal

NVMF = BUILD / "apps" / "nvmf" / "uroce_nvmf"
UROCED = BUILD / "apps" / "uroced" / "uroced"
REACTOR = r"reactor \d+: (\d+) I/O queues, (\d+) commands, (\d+) bytes read, (\d+) bytes written"
HOST = BUILD / "tests" / "system" / "clients" / "client_nvmf_host"
DISKS, NQN = "nqn.2024-01.org.example:disks", "nqn.2024-01.org.example:host"


class Nvmf(harness.Case):
    def start_daemon(self, *args, namespace=None):
        socket = self.directory / "uroced.sock"
        daemon = self.start([UROCED, *args, "--socket", socket], namespace)
        daemon.wait_for("serving", 60)
        return {"UROCE_SOCKET": str(socket)}

    def start_target(self, *args, namespace=None, env=None):
        target = self.start([NVMF, *args, "--nqn", DISKS, "--allow-host", NQN], namespace, env)
        target.wait_for("serving", 60)
        return target

    def run_host(self, device, address, *args, namespace=None, env=None, nqn=NQN, code=0):
        host = self.start([HOST, device, address, DISKS, nqn, *args], namespace, env)
        return self.finish(host, 120, code)

    def disk(self, size=8 << 20):
        path = self.directory / "disk.img"
        with path.open("wb") as file:
            file.truncate(size)
        return path

    def settings(self, text):
        path = self.directory / "nvmf.toml"
        path.write_text(text)
        return path

    def end(self, target):
        """Returns what each reactor did."""
        os.kill(target.process.pid, signal.SIGTERM)
        said = self.finish(target, 30)
        return [tuple(map(int, found)) for found in re.findall(REACTOR, said)]

    def two_machines(self):
        """The target's namespace, the host's, and the environment of the host's programs. `d0` joins the two."""
        spaces = harness.Namespaces(4200)
        spaces.__enter__()
        self.addCleanup(spaces.__exit__)
        for number, name in enumerate(spaces.names, 1):
            harness.ip("-n", name, "addr", "add", f"192.0.2.{number}/24", "dev", "d0")
            harness.ip("-n", name, "link", "set", "d0", "arp", "on", "up")
        return *spaces.names, self.start_daemon("--interface", "d0", namespace=spaces.names[1])

    def test_beside_a_daemon(self):
        env = self.start_daemon("--demo")
        # The command line's choice goes before the file's.
        settings = self.settings('interface = "none0"\n')
        target = self.start_target("--config", settings, "--daemon", "--namespace", "memory:8M", "--user", "games", env=env)
        said = self.run_host("uroce0", "10.117.0.2", env=env)
        self.assertIn("4 rounds on 2 queues verified", said)
        stranger = self.run_host("uroce0", "10.117.0.2", env=env, nqn="nqn.2024-01.org.example:stranger", code=1)
        self.assertIn("another subsystem", stranger)
        self.end(target)

    @unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
    def test_in_process_over_an_interface(self):
        a, b, env = self.two_machines()
        disk = self.disk()
        settings = self.settings(f'interface = "d0"\nlcores = "(0,1)@{harness.CPUS[-1]}"\n')
        lcores = [f"--lcores=(0,1)@{harness.CPUS[-1]}", *eal()[2:], "--", "--idle", "sleep"]
        for words, reactors in ((["--interface", "d0"], 1), (["--config", settings], 2), ([*lcores, "--interface", "d0"], 2),
                                 (["--interface", "d0", "--user", "games"], 1)):
            with self.subTest(words=words):
                target = self.start_target(*words, "--namespace", disk, namespace=a)
                said = self.run_host("uroce0", "192.0.2.1", "4", "2", namespace=b, env=env)
                self.assertIn("blocks of 4096 bytes", said)
                self.assertIn("2 rounds on 4 queues verified", said)
                # 2 rounds of 8 WRITEs, a Flush and 8 READs on each queue, and its Connect.
                share = 4 // reactors
                moved = share * 2 * 8 * (64 << 10)
                self.assertEqual(self.end(target), reactors * [(share, share * (2 * 17 + 1), moved, moved)])
        self.assertNotEqual(disk.read_bytes()[:65536], bytes(65536))

    @unittest.skipUnless(harness.may_make_namespaces(), "this machine allows no network namespaces with veth pairs")
    def test_queues_of_hosts_that_die_end(self):
        a, b, env = self.two_machines()
        # There is room for one host: an admin queue and six I/O queues.
        target = self.start_target(f"--lcores=(0-2)@{harness.CPUS[-1]}", *eal()[2:], "--", "--idle", "sleep", "--interface", "d0",
                                   "--max-queues", "7", "--namespace", "memory:8M", namespace=a)
        limit = time.monotonic() + 200 * harness.SLOW
        for killed in range(5):
            host = self.start([HOST, "uroce0", "192.0.2.1", DISKS, NQN, "6", "1000000"], b, env)
            while "6 queues are open" not in host.output:
                self.assertLess(time.monotonic(), limit, f"{killed} hosts killed; {host}")
                if host.process.poll() is not None:  # refused: the queues of the one before have not ended
                    self.assertIn("rejected", host.output)
                    host = self.start(host.command, None, env)
                time.sleep(0.02)
            host.kill()
        self.assertGreaterEqual(min(queues for queues, *_ in self.end(target)), 2 * 5)


if __name__ == "__main__":
    harness.main()
