#!/usr/bin/env python3
"""rxe as the peer of a daemon that is replaced (`uroced --replace`): test_restart.py [part of a case's name]...

UROCE_RESTARTS=N makes N restarts. Programs at both ends check that each operation happens once (system/clients/alive.cc)."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import harness  # noqa: E402
import interop  # noqa: E402
import replacing  # noqa: E402
import rig as rigs  # noqa: E402

WIRE = 4
CLIENT = harness.BUILD / "tests" / "system" / "clients" / "client_alive"
UROCE = harness.BUILD / "apps" / "uroce" / "uroce"
RESTARTS = int(os.environ.get("UROCE_RESTARTS", "3"))
PORT = 18516  # in the guest, which is the test's own
# An emulated rxe takes its time: 1.5 s for what is under way, where others leave it a fiftieth of a CPU.
PATIENT = ("--timeout", "20", "--mtu", "4096")
COUNTERS = f"cat /proc/uptime; cd /sys/class/infiniband/rxe{WIRE}/ports/1/hw_counters; grep . *"


class InterfaceRig(rigs.Rig):
    """A daemon on wire 4, an interface that the kernel of this side keeps."""

    def make_daemon(self):
        harness.ip("addr", "add", f"{rigs.addresses(WIRE, 'host')[0]}/24", "dev", f"wire{WIRE}")
        return self.launch_daemon()

    def launch_daemon(self, *args):
        daemon = harness.Program([rigs.UROCED, *harness.eal(), "--", "--interface", f"wire{WIRE}", "--user", "", "--socket",
                                  self.env["UROCE_SOCKET"], *args], self.directory)
        self.running.append(daemon)
        return daemon

    def replace_daemon(self):
        """Returns for how long everything stood still, in milliseconds."""
        before, self.daemon = self.daemon, self.launch_daemon("--replace")
        self.daemon.wait_for("serving uroce0", 30)
        before.wait(30)
        frozen, _, refused = re.search(replacing.HANDED_OVER.format(r"\d+"), before.output).groups()
        if refused != "0":
            raise AssertionError(before.output)
        return int(frozen)

    def state(self):
        """For a failure: what both sides count, and the tap between them, which drops what a guest without a CPU leaves there."""
        said = [str(self.daemon)]
        for command in ([UROCE, "show", "qp"], [UROCE, "explain"], [UROCE, "stat"], ["ip", "-s", "link", "show", f"wire{WIRE}"]):
            done = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60, check=False)
            said.append(done.stdout + done.stderr)
        return "\n".join([*said, self.guest.run(COUNTERS, 60)])


class Restart(interop.RigCase):
    kind = InterfaceRig

    def restart_under(self, server, client):
        """Restarts the daemon, and returns how long each restart took."""
        frozen = []
        for _ in range(RESTARTS):
            frozen.append(self.rig.replace_daemon())
            self.assertIsNone(client.process.poll(), f"the client ended after {len(frozen)} restarts")
            self.assertFalse(server.has_ended(), f"the server ended after {len(frozen)} restarts")
        return frozen

    def test_all_operations(self):
        server = self.rig.guest.start(f"exec {CLIENT} --device rxe{WIRE} --port {PORT} {' '.join(PATIENT)}", 3600)
        client = self.rig.on_host(CLIENT, "--device", "uroce0", "--port", PORT, *PATIENT, "--lanes", "rc=2,srq=2,uc=1,ud=1",
                                  self.rig.guest.commands[1])
        client.wait_for("running", 60)
        try:
            frozen = self.restart_under(server, client)
            client.process.send_signal(signal.SIGTERM)
            self.assertEqual(client.wait(120), 0)
            self.assertEqual(server.finish(), 0)
        except AssertionError as error:
            state = self.rig.state()
            if server.code is None:
                server.has_ended()
            self.fail(f"{error}\n{client}\n{server}\n{state}")
        done = [json.loads(output.splitlines()[-1]) for output in (server.output, client.output)]
        for side in done:
            for what in ("messages", "atomics", "reads", "unreliable"):
                self.assertGreater(side[what], 0, done)
        sums = {what: sum(side[what] for side in done) for what in done[0]}
        print("# " + json.dumps({"case": "rxe", **replacing.summary(frozen), **sums}))


if __name__ == "__main__":
    reason = rigs.missing()
    if reason:
        print(f"1..1\nok 1 restart # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
