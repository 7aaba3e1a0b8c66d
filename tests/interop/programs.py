"""Debian's own verbs programs: one end in the guest on rxe, the other under uroce-run. A program is a line of `PROGRAMS`."""

import dataclasses
import re
import sys
import time

import guest as guests
import harness
import interop

sys.path.insert(0, str(harness.SOURCE / "config"))
import pair as pairs  # noqa: E402

PORT = 18515  # on both sides: the namespace and the guest are the test's own
VERBS = "-d {device} -g {gid} -p 18515 -n 100"
# A timeout of a second: emulated, rxe takes longer for what is under way than the 67 ms that perftest sets.
PERF = "-d {device} -x {gid} -p 18515 -F -n 100 -u 18"
BANDWIDTH = r"#bytes +#iterations"


@dataclasses.dataclass
class Program:
    """A program with a server and a client. In the commands, `{device}` and `{gid}` are this side's, `{peer}` is the server's
    address for what they tell each other beside RDMA, `{rdma}` its address on the wire."""

    command: str
    client: str = " {peer}"  # follows for the client alone
    server: str = ""  # follows for the server alone
    family: int = 4
    says: str = r"\d+ iters in"

    @property
    def name(self):
        special = self.command.replace(VERBS, "").replace(PERF, "")
        return re.sub(r"[^a-z0-9]+", "_", special).strip("_") + f"_ipv{self.family}"


PROGRAMS = (
    Program(f"ibv_rc_pingpong {VERBS} -c -s 20000"),
    Program(f"ibv_rc_pingpong {VERBS} -e", family=6),
    Program(f"ibv_uc_pingpong {VERBS}"),
    Program(f"ibv_ud_pingpong {VERBS}"),
    Program(f"ibv_ud_pingpong {VERBS} -e", family=6),
    Program(f"ibv_srq_pingpong {VERBS}", family=6),
    Program(f"ib_send_bw {PERF}", says=BANDWIDTH),
    Program(f"ib_send_lat {PERF} -s 64", says=BANDWIDTH),
    Program(f"ib_read_bw {PERF}", says=BANDWIDTH),
    Program(f"ib_write_bw {PERF} -b", family=6, says=BANDWIDTH),
    Program(f"ib_write_bw {PERF} -b -q 4 -s 16384", says=BANDWIDTH),
    Program(f"ib_atomic_bw {PERF}", says=BANDWIDTH),
)


class Programs(interop.Case):
    """A method per program and direction; see `add_cases`."""

    def run_case(self, program, server, client):
        listening = self.launch(server, program.command + program.server, program.family)
        self.wait_for_listener(server, listening)
        calling = self.launch(client, program.command + program.client, program.family, server)
        outcome = [(self.end(running), running) for running in (calling, listening)]
        both = "\n".join(str(running) for _, running in outcome)
        for code, running in outcome:
            self.assertEqual(code, 0, both)
            self.assertRegex(running.output, program.says, both)
        interop.record("programs", program.command.split(" ")[0], program.family, server.name, client.name)

    def launch(self, side, command, family, server=None):
        words = {"device": side.device, "gid": side.gid[family]}
        if server is not None:
            words.update(peer=guests.COMMANDS[0 if server is self.host else 1], rdma=server.addresses[family])
        command = command.format(**words)
        if side is self.guest:
            return self.rig.guest.start(command, 30)
        return self.rig.on_host(*command.split())

    def end(self, running):
        return running.finish() if hasattr(running, "finish") else running.wait(30)

    def wait_for_listener(self, side, running):
        if side is self.guest:
            waiting = f"until grep -q ':{PORT:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
            self.rig.guest.run(waiting, 20)
            return
        limit = time.monotonic() + 20 * harness.SLOW
        while not pairs.listens(PORT):
            self.assertIsNone(running.process.poll(), f"ended before it listened: {running}")
            self.assertLess(time.monotonic(), limit, f"does not listen: {running}")
            time.sleep(0.02)


def add_cases():
    for program in PROGRAMS:
        for server, client in (("host", "guest"), ("guest", "host")):
            def case(self, program=program, server=server, client=client):
                self.run_case(program, getattr(self, server), getattr(self, client))
            name = {"host": "uroce", "guest": "rxe"}
            setattr(Programs, f"test_{program.name}_from_{name[client]}", case)


add_cases()
