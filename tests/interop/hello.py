"""HELLO, by which uroce finds peers that understand selective retransmission: rxe drops it, unseen and unsaid."""

import json
import subprocess
import time

import harness
import interop

CLI = harness.BUILD / "apps" / "uroce" / "uroce"
COUNTERS = "/sys/class/infiniband/rxe1/ports/1/hw_counters"
MTU = 1024


class Hello(interop.Case):
    def hellos(self):
        done = subprocess.run([CLI, "stat", "--json", "--all", "--interval", "0", "--socket", self.rig.env["UROCE_SOCKET"], "uroce0"],
                              capture_output=True, text=True, timeout=30, check=True)
        counters = json.loads(done.stdout)[0]["counters"]
        return counters["hellos_sent"], counters["hellos_received"], counters["naks_received"]

    def guest_counters(self):
        return self.rig.guest.run(f"cd {COUNTERS} && grep . *")

    def test_rxe_drops_it_in_silence(self):
        log = self.rig.guest.run("dmesg | wc -l")
        before, (sent, received, naks) = self.guest_counters(), self.hellos()
        a, b = self.pair(self.host, self.guest, "RC", MTU)
        limit = time.monotonic() + 30 * harness.SLOW
        while self.hellos()[0] < sent + 1:
            self.assertLess(time.monotonic(), limit, "no HELLO")
            time.sleep(0.05)
        time.sleep(0.2)  # for an answer, if there were one
        self.assertEqual(self.guest_counters(), before)
        self.assertEqual(self.rig.guest.run("dmesg | wc -l"), log)
        self.assertEqual(self.hellos()[1:], (received, naks))
        source, sink = self.region(self.host, 5000), self.region(self.guest, 5000, "write")
        source.fill(1, 0, 5000)
        a.post("WRITE", source, 5000, 0, sink, wr_id=1)
        self.assert_success(a.sent(), wr_id=1)
        self.assertEqual(sink.wrong(1, 0, 5000), {})
        self.assertEqual((a.state(), b.state()), ("RTS", "RTS"))
