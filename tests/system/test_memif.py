#!/usr/bin/env python3
"""Two processes joined by memif, every byte verified."""

import harness
from harness import IDLE, eal


class Memif(harness.Case):
    def pair(self, test, *args, lcores=("0", "0"), **kw):
        socket = self.directory / "m.sock"
        server = eal(f"--vdev=net_memif0,role=server,socket={socket}", lcores=lcores[0])
        client = eal(f"--vdev=net_memif0,role=client,socket={socket}", lcores=lcores[1])
        return self.run_pair(test, server, client, *IDLE, *args, **kw)

    def test_write(self):
        self.pair("write_bw", "--verify", "-m", "4096", "-s", "65536", "-n", "500")

    def test_write_of_every_size(self):
        self.pair("write_bw", "--verify", "-a", "-n", "10", "-t", "4")

    def test_read(self):
        self.pair("read_bw", "--verify", "-m", "4096", "-s", "65536", "-n", "500")

    def test_send(self):
        self.pair("send_bw", "--verify", "-m", "4096", "-s", "65536", "-n", "500")

    def test_fetch_add(self):
        self.pair("atomic_bw", "--verify", "-n", "2000")

    def test_compare_swap(self):
        self.pair("atomic_bw", "--verify", "-A", "CMP_AND_SWAP", "-n", "2000")

    def test_atomic_write(self):
        self.pair("atomic_bw", "--verify", "-A", "WRITE", "-n", "2000")

    def test_flush(self):
        self.pair("flush_bw", "--verify", "-s", "5000", "-n", "500")
        self.pair("flush_bw", "--verify", "-s", "64", "-I", "64", "-l", "8", "-n", "800")

    def test_both_directions(self):
        self.pair("write_bw", "--verify", "-b", "-s", "65536", "-n", "500")

    def test_small_path_mtu(self):
        self.pair("write_bw", "--verify", "-m", "256", "-s", "10000", "-n", "200")

    def test_odd_sizes_inline(self):
        self.pair("send_bw", "--verify", "-s", "13", "-I", "64", "-n", "2000")

    def test_many_qps(self):
        self.pair("write_bw", "--verify", "-q", "64", "-s", "4096", "-n", "50", "-t", "16")

    def test_ipv6(self):
        self.pair("write_bw", "--verify", "-s", "65536", "-n", "200",
                  server_args=("--address", "2001:db8::1/64"), client_args=("--address", "2001:db8::2/64"))

    def test_vlan(self):
        self.pair("write_bw", "--verify", "-s", "65536", "-n", "200", "--vlan", "42")

    def test_bare_port(self):
        self.pair("raw_bw", "-s", "1024", "-D", "0.3")
        report = self.pair("raw_lat", "-n", "500")
        self.assertEqual(report["results"]["n_iterations"], 500)
        self.assertLess(0, report["results"]["t_typical"])

    def test_latency_of_each_verb(self):
        for verb in ("write", "read", "send", "atomic", "flush"):
            self.pair(f"{verb}_lat", "--verify", "-n", "500")


if __name__ == "__main__":
    harness.main()
