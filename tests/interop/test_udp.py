#!/usr/bin/env python3
"""A port on UDP sockets (net_uroce_udp) against rxe: test_udp.py [part of a case's name]...

The daemon and its programs are those of an ordinary user without any capability. rxe numbers its IPv4 packets, which a socket does
not show."""

import itertools
import json
import pathlib
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import harness  # noqa: E402
import interop  # noqa: E402
import matrix  # noqa: E402
import programs  # noqa: E402
import rig as rigs  # noqa: E402

WIRE = 4
CLI = harness.BUILD / "apps" / "uroce" / "uroce"
MTUS = {4: 4096, 6: 1024}  # by family
# Longer messages of UC lose packets while the daemon waits for its CPU: its socket's buffer is net.core.rmem_max at most.
LONGEST_OF_UC = 1 << 16
OPERATIONS = (("RC", "SEND"), ("RC", "WRITE"), ("RC", "READ"), ("RC", "FETCH_ADD"), ("RC", "CMP_SWAP"), ("UC", "WRITE"), ("UD", "SEND"))
PROGRAMS = [one for one in programs.PROGRAMS if one.command.startswith((f"ib_write_bw {programs.PERF}", "rping -v", "stdbuf -oL mckey"))]
NEVER = dict.fromkeys(("udp_rx_unknown_ids", "udp_rx_bad_lengths", "udp_tx_foreign", "udp_tx_dropped"), 0)


class UserRig(rigs.Rig):
    """A daemon of an ordinary user is on wire 4, where the kernel of this side has addresses."""

    as_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")

    def make_daemon(self):
        self.directory.chmod(0o777)
        self.env["XDG_RUNTIME_DIR"] = str(self.directory)
        harness.sysctl(None, f"net.ipv6.conf.wire{WIRE}.disable_ipv6=0")
        four, six = rigs.addresses(WIRE, "host")
        harness.ip("addr", "add", f"{four}/24", "dev", f"wire{WIRE}")
        harness.ip("addr", "add", f"{six}/64", "dev", f"wire{WIRE}", "nodad")
        daemon = harness.Program([*self.as_user, rigs.UROCED, *harness.eal(), "--", "--interface", f"wire{WIRE}", "--socket",
                                  self.env["UROCE_SOCKET"]], self.directory, env=self.env)
        self.running.append(daemon)
        return daemon

    @staticmethod
    def device(wire):
        return "uroce0"

    def counters(self):
        done = subprocess.run([CLI, "stat", "--json", "--all", "--interval", "0", "--socket", self.env["UROCE_SOCKET"], "uroce0"],
                              capture_output=True, text=True, timeout=30 * harness.SLOW, check=True)
        return json.loads(done.stdout)[0]["counters"]


class Case(interop.Case):
    wire = WIRE
    kind = UserRig

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o777)

    def check_rig(self):
        super().check_rig()
        counters = self.rig.counters()
        self.assertEqual({name: counters[name] for name in NEVER}, NEVER)


class Operations(matrix.Transfers, Case):
    """A method per operation, family and direction; see `add_cases`."""

    def run_case(self, kind, op, family, requester, responder):
        a, b = self.pair(requester, responder, kind, MTUS[family], family=family)
        longest = LONGEST_OF_UC if (kind, responder) == ("UC", self.host) else matrix.MIB
        self.run_operation(a, b, op, (min(length, longest) for length in matrix.lengths(kind, op, MTUS[family])))

    def test_the_daemon_has_a_udp_socket(self):
        self.assertIn("so RoCE passes by a UDP socket", self.rig.daemon.output)


class Programs(programs.Runs, Case):
    """A method per program and direction; see `add_cases`."""


def add_cases():
    for (kind, op), family, direction in itertools.product(OPERATIONS, MTUS, interop.DIRECTIONS):
        def case(self, kind=kind, op=op, family=family, direction=direction):
            self.run_case(kind, op, family, *self.sides(direction))
        setattr(Operations, f"test_{kind}_{op}_ipv{family}_{direction}".lower(), case)
    programs.add_programs(Programs, PROGRAMS)


add_cases()

if __name__ == "__main__":
    reason = rigs.missing()
    if reason:
        print(f"1..1\nok 1 udp # SKIP {reason}")
        sys.exit()
    rigs.enter_namespace()
    harness.main()
