#!/usr/bin/env python3
"""The package's unit under a real systemd: a program's queue pairs outlive restarts of the service and kills of its daemon."""

import pathlib
import re
import shutil
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import bare_debian  # noqa: E402
import guest as guests  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402

NAME = "service"
MACHINES = harness.BUILD / "machines"
ADDRESS = "192.0.2.1"
OURS = ("uroce_", "uroce-verbs_")
PORT = 18515
WRITE = f"exec uroce-run ib_write_bw -d uroce0 -x 0 -m 1024 -s 4096 -t 4 -D 3600 -p {PORT} -F"


def prepare():
    """The machine's root with our packages, installed while there is a network."""
    folder = MACHINES / f"{NAME}-packages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    debs = [deb for deb in bare_debian.packages(folder) if deb.name.startswith(OURS)]
    root = machine.prepare(NAME, (*machine.USUAL, "perftest"), tuple(debs))
    for deb in debs:
        shutil.copy(deb, root / "root")
    bare_debian.run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", bare_debian.CONTAINER, root,
                    "apt-get -y install /root/*.deb", env=bare_debian.BareDebian.environment())
    settings = root / "etc/uroce/uroced.toml"
    settings.write_text(settings.read_text() + '\n[[device]]\ninterface = "eth0"\n')


class Service(harness.Case):
    def setUp(self):
        super().setUp()
        harness.ip("link", "set", "lo", "up")
        guests.make_tap("wire", guests.MTU)
        self.machine = machine.Machine(self.directory, MACHINES / NAME / "root", ("wire", f"{ADDRESS}/24", ""), 1)
        self.addCleanup(shutil.rmtree, MACHINES / NAME)
        self.addCleanup(self.machine.kill)
        self.machine.wait_until_up(240)

    def run_there(self, command, seconds=120):
        return self.machine.run(command, seconds)

    def main_process(self):
        return int(self.run_there("systemctl show -P MainPID uroced"))

    def wait_for_another(self, before):
        self.run_there(f"n=0; until p=$(systemctl show -P MainPID uroced); [ $p != 0 -a $p != {before} ] && systemctl is-active uroced; do "
                       "n=$((n + 1)); [ $n -lt 300 ] || { systemctl status uroced; exit 1; }; sleep 0.1; done")

    def sent(self):
        return sum(row["traffic"]["tx_bytes"] for row in harness.loads(self.run_there("uroce show client --json")))

    def wait_for_traffic(self):
        limit, before = time.monotonic() + 120 * harness.SLOW, self.sent()
        while self.sent() <= before:
            self.assertLess(time.monotonic(), limit, self.journal())

    def journal(self):
        return self.run_there("journalctl -u uroced -o cat --no-pager | tail -n 60")

    def traffic(self):
        """A server and its client, both on the daemon's one device."""
        server = self.machine.start(WRITE, 3600)
        self.run_there(f"n=0; until ss -ltn | grep -q :{PORT}; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1; done")
        client = self.machine.start(f"{WRITE} {ADDRESS}", 3600)
        self.wait_for_traffic()
        return [server, client]

    def outlives(self, command):
        before = self.main_process()
        self.run_there(command)
        self.wait_for_another(before)
        last = harness.loads(self.run_there("uroce show restart --json"))[0]["last"]
        self.assertEqual((last["from_process"], last["queue_pairs"], last["clients_refused"]), (before, 2, 0), self.journal())

    def end(self, programs):
        for one in programs:
            self.run_there(f"kill {one.pid} 2>&1 || true")
            one.finish()

    def test_restarts_and_kills(self):
        self.run_there("systemctl start uroced")
        programs = self.traffic()
        for _ in range(2):
            self.outlives("systemctl restart uroced")
            self.wait_for_traffic()
        for _ in range(2):
            programs = self.outlive_a_kill(programs)
        self.end(programs)

    def outlive_a_kill(self, programs):
        """Tried again where it found an engine at work on a queue pair, which ends then."""
        for _ in range(5):
            self.outlives("systemctl kill -s KILL --kill-who=main uroced")
            in_hand = re.findall(r"(\d+) of them in error", self.journal())
            if in_hand[-1:] == ["0"]:
                self.wait_for_traffic()
                return programs
            self.end(programs)
            programs = self.traffic()
        self.fail(self.journal())


if __name__ == "__main__":
    machine.run_tests(NAME, prepare)
