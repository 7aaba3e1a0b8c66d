#!/usr/bin/env python3
"""Programs that look at RDMA devices see uroce's: `rdma` of iproute2, unchanged, the counters below /sys/class/infiniband,
and Prometheus' exporter, a program in Go that no library reaches."""

import json
import pathlib
import re
import time
import urllib.request

import harness
import verbs

SERVER = "10.117.0.1"
COUNTERS = "/sys/class/infiniband/uroce0/ports/1/counters"
HARDWARE = "/sys/class/infiniband/uroce0/ports/1/hw_counters"
MANY_QUEUES = """
import pyverbs.device, pyverbs.cq, time
context = pyverbs.device.Context(name="uroce0")
queues = [pyverbs.cq.CQ(context, 1) for i in range(500)]
print("made", flush=True)
time.sleep(600)
"""


class Case(verbs.SharedCase):
    def rdma(self, *args):
        """The tool's JSON."""
        return json.loads(self.finish(self.under("rdma", "-j", *args), 30))

    def value(self, file):
        return int(self.finish(self.under("cat", file), 30))

    def own_counter(self, name):
        command = [harness.BUILD / "apps" / "uroce" / "uroce", "stat", "--interval", "0", "--json", "--socket", self.socket]
        return harness.loads(self.finish(self.start([*command, "uroce0"]), 30))[0]["counters"].get(name, 0)

    def exchange(self):
        self.pair(["ibv_rc_pingpong", "-g", "0", "-n", "1000", "-s", "4096"])

    def process_of(self, program):
        """The id of the program that uroce-run has started."""
        run = program.process.pid
        return int(pathlib.Path(f"/proc/{run}/task/{run}/children").read_text().split()[0])


class Tool(Case):
    def test_link_and_dev(self):
        links = [(link["ifname"], link["port"], link["state"], link["physical_state"]) for link in self.rdma("link", "show")]
        self.assertEqual(links, [(name, 1, "ACTIVE", "LINK_UP") for name in ("uroce0", "uroce1")])
        self.assertIn("link uroce1/1", self.finish(self.under("rdma", "link", "show", "uroce1/1"), 30))
        self.assertIn("caps: <", self.finish(self.under("rdma", "-d", "link"), 30))
        devices = self.rdma("dev")
        self.assertEqual([device["ifname"] for device in devices], ["uroce0", "uroce1"])
        node = self.finish(self.under("cat", "/sys/class/infiniband/uroce0/node_guid"), 30).strip()
        self.assertEqual(devices[0]["node_guid"], node)
        self.assertIn("netns shared", self.finish(self.under("rdma", "system"), 30))

    def test_interface_of_a_device(self):
        if not harness.may_make_namespaces():
            self.skipTest("needs root")
        run = self.start([verbs.RUN, "--netns", "rdma", "link", "show", "-j"], env=self.env)
        self.assertEqual([link["netdev"] for link in json.loads(self.finish(run, 30))], ["uroce0", "uroce1"])

    def test_resources(self):
        port = harness.free_port()
        server = self.under("ibv_rc_pingpong", "-d", "uroce0", "-g", "0", "-p", str(port))
        verbs.wait_for_listener(server, port)
        summary = self.rdma("resource")[0]
        for kind in ("qp", "cq", "mr", "pd", "ctx"):
            with self.subTest(kind):
                self.assertGreaterEqual(summary[kind], 1)
                own = [row for row in self.rdma("resource", "show", kind) if row.get("pid") == self.process_of(server)]
                self.assertEqual([(row["ifname"], row["comm"]) for row in own], [("uroce0", "ibv_rc_pingpong")])
                if kind == "qp":
                    self.assertEqual((own[0]["type"], own[0]["state"]), ("RC", "INIT"))
                    number = str(own[0]["lqpn"])
                    self.assertEqual(self.rdma("resource", "show", "qp", "link", "uroce0/1", "lqpn", number), own)
                if kind == "cq":
                    self.assertEqual(own[0]["users"], 2)  # its queue pair sends and receives
        server.kill()

    def test_shared_receive_queue(self):
        port = harness.free_port()
        server = self.under("ibv_srq_pingpong", "-d", "uroce0", "-g", "0", "-p", str(port))
        verbs.wait_for_listener(server, port)
        own = [row for row in self.rdma("resource", "show", "srq") if row.get("pid") == self.process_of(server)]
        self.assertEqual([row["type"] for row in own], ["BASIC"])
        server.kill()

    def test_connections(self):
        self.need("rping")
        server = self.under("rping", "-s", "-a", SERVER, "-p", "7174")
        limit = time.monotonic() + 20 * harness.SLOW
        while not (rows := self.rdma("resource", "show", "cm_id")):
            self.assertLess(time.monotonic(), limit, str(server))
        self.assertEqual([(row["state"], row["ps"], row["comm"]) for row in rows], [("LISTEN", "TCP", "rping")])
        self.assertEqual(rows[0]["src-addr"], f"{SERVER}:7174")
        server.kill()

    def test_list_of_several_packets(self):
        program = self.under("/usr/bin/python3", "-c", MANY_QUEUES)
        program.wait_for("made", 60)
        process = self.process_of(program)
        self.assertEqual(sum(row.get("pid") == process for row in self.rdma("resource", "show", "cq")), 500)
        program.kill()

    def test_refused(self):
        """The tool says the error, and ends."""
        run = self.under("rdma", "link", "add", "other", "type", "rxe", "netdev", "lo")
        self.assertNotEqual(run.wait(30), 0)
        self.assertIn("not supported", run.output)


class Counters(Case):
    def test_files(self):
        names = set(self.finish(self.under("ls", COUNTERS), 30).split())
        self.assertLessEqual({"port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets"}, names)
        self.exchange()
        self.assertGreater(self.value(f"{COUNTERS}/port_rcv_data"), 1000 * 4096 // 4)
        self.assertEqual(self.value(f"{HARDWARE}/duplicate_request"), self.own_counter("drop_psn_duplicate"))

    def test_fresh_at_each_read(self):
        """One program reads the file before and after others send."""
        script = self.directory / "read_twice.sh"
        script.write_text(f"""read -r before < {HARDWARE}/rcvd_pkts; echo "first $before"
until [ -e {self.directory}/go ]; do sleep 0.05; done
read -r after < {HARDWARE}/rcvd_pkts; echo "grown by $((after - before))"
""")
        program = self.under("bash", str(script))
        program.wait_for("first", 30)
        self.exchange()
        before = self.own_counter("rx_packets")
        (self.directory / "go").touch()
        grown = int(re.search(r"grown by (\d+)", self.finish(program, 30))[1])
        first = int(re.search(r"first (\d+)", program.output)[1])
        self.assertGreater(grown, 4000)
        self.assertGreaterEqual(first + grown, before)

    def test_statistic(self):
        self.exchange()
        statistics = {row["ifname"]: row for row in self.rdma("statistic", "show")}
        self.assertGreater(statistics["uroce0"]["rcvd_pkts"], 4000)
        names = self.finish(self.under("ls", HARDWARE), 30).split()
        self.assertLessEqual(set(names), set(statistics["uroce0"]))

    def test_node_exporter(self):
        """It reads the tree that uroce-run names, without its library."""
        self.need("prometheus-node-exporter")
        port = harness.free_port()
        exporter = self.under("sh", "-c", 'exec prometheus-node-exporter --path.sysfs="$UROCE_SYSFS" --collector.infiniband '
                              f"--collector.disable-defaults --web.listen-address=127.0.0.1:{port}")
        verbs.wait_for_listener(exporter, port)
        self.assertIn('node_infiniband_info{board_id="uroce",device="uroce0"', self.scrape(port))
        self.exchange()
        # It was seen, so the files are at most a second old, unless the machine is slow.
        limit = time.monotonic() + 30 * harness.SLOW
        while (received := self.bytes_received(port)) // 4 != self.own_counter("rx_bytes") // 4:
            self.assertLess(time.monotonic(), limit, received)
            time.sleep(0.2)
        self.assertGreater(received, 1000 * 4096)
        exporter.kill()

    def scrape(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30 * harness.SLOW) as page:
            return page.read().decode()

    def bytes_received(self, port):
        page = self.scrape(port)
        return float(re.search(r'^node_infiniband_port_data_received_bytes_total\{device="uroce0",port="1"\} (\S+)', page, re.M)[1])


if __name__ == "__main__":
    harness.main()
