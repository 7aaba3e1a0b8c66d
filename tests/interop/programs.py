"""Debian's own verbs programs: one end in the guest on rxe, the other under uroce-run. A program is a line of `PROGRAMS`."""

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time

import guest as guests
import harness
import interop
import preload

sys.path.insert(0, str(harness.SOURCE / "config"))
import pair as pairs  # noqa: E402

SERIAL = itertools.count()
NAMES = {"host": "uroce", "guest": "rxe"}
LIMIT = 30  # seconds for each end
PORT = 18515  # on both sides: the namespace and the guest are the test's own
VERBS = "-d {device} -g {gid} -p 18515 -n 100"
# A timeout of a second: emulated, rxe takes longer for what is under way than the 67 ms that perftest sets.
PERF = "-d {device} -x {gid} -p 18515 -F -n 100 -u 18"
BANDWIDTH = r"#bytes +#iterations"
CM = {"ready": "listen"}
PERF_CM = {"ready": "listen", "twice": True, "says": BANDWIDTH}
STREAM = "-I 10 -C 5"
STREAMED = r"(?m)^custom +\d.*s +\d+\.\d+ +\d+\.\d+$"


@dataclasses.dataclass
class Program:
    """A program with a server and a client. In the commands, `{device}` and `{gid}` are this side's, `{own}` its address on
    the wire, `{rdma}` the server's, `{peer}` the server's for what they tell each other beside RDMA."""

    command: str
    client: str = " {peer}"  # follows for the client alone
    server: str = ""  # follows for the server alone
    family: int = 4
    says: str = r"\d+ iters in"
    ready: str = "tcp"  # how to see that the server can be called: "tcp", "listen" or "bind" (preload.TELLS), or what it prints
    client_program: str = None  # where it is not the server's
    stays: bool = False  # the server would serve on: it is ended
    twice: bool = False  # the server listens a second time, and the client does not wait for it
    hasty: bool = False  # the client does not wait for its sends, and rxe drops them with its queue pair

    @property
    def name(self):
        special = self.command.replace(VERBS, "").replace(PERF, "")
        return re.sub(r"[^a-z0-9]+", "_", re.sub(r"{\w+}", "", special).lower()).strip("_") + f"_ipv{self.family}"


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
    Program("rping -v -C 10 -a {rdma}", " -c", " -s", says="ping data: rdma-ping-9|^server DISCONNECT", **CM),
    Program("rping -V -C 30 -S 20000 -a {rdma}", " -c", " -s", says="(?s).?", **CM),
    Program("ucmatose -C 20 -S 5000", " -s {rdma}", " -b {rdma}", says="return status 0", **CM),
    Program("ucmatose -c 20", " -s {rdma}", " -b {rdma}", says="return status 0", **CM),
    Program("udaddy", " -s {rdma}", " -b {rdma}", says="return status 0", **CM),
    Program("rdma_server", " -s {rdma}", client_program="rdma_client", says="end 0", **CM),
    Program("rdma_xserver", " -s {rdma}", client_program="rdma_xclient", says="end 0", **CM),
    Program("rping -v -C 10 -a {rdma}", " -c", " -s", family=6, says="ping data: rdma-ping-9|^server DISCONNECT", **CM),
    Program("ib_send_bw -R -F -n 100", " {rdma}", **PERF_CM),
    Program("ib_write_bw -R -F -n 100", " {rdma}", **PERF_CM),
    Program("ib_read_bw -R -F -n 100", " {rdma}", **PERF_CM),
    Program("cmtime", " -s {rdma} -c 20", " -b {rdma}", says=r"(?m)^destroy *: +\d", stays=True, **CM),
    Program("stdbuf -oL mckey -b {own} -m 239.1.2.3", " -s", says="return status 0", ready="joined", hasty=True),
    Program(f"rstream {STREAM} -S 100000 -T v", " -s {rdma}", " -b {rdma}", says=STREAMED, **CM),
    Program(f"rstream {STREAM} -S 64 -T n", " -s {rdma}", " -b {rdma}", family=6, says=STREAMED, **CM),
    Program(f"riostream {STREAM} -S 10000 -T v", " -s {rdma}", " -b {rdma}", says=STREAMED, **CM),
)


class Runs:
    """For test cases that run a program at each end."""

    def run_case(self, program, server, client):
        self.run_both(program, server, client)
        words = (word for word in program.command.split() if word not in ("stdbuf", "-oL"))
        interop.record("programs", next(words), program.family, server.name, client.name)

    def run_both(self, program, server, client):
        """Runs both ends and returns their output, the client's first unless the client waits for the server's end."""
        told = f"/run/listens-{next(SERIAL)}" if server is self.guest else self.directory / "listens"
        listening = self.launch(program, server, server, {
            "LD_PRELOAD": preload.TELLS, "UROCE_TEST_LISTENS": told, "UROCE_TEST_LISTENS_AT": program.ready})
        self.await_server(program, server, listening, told)
        go_on = f"/run/listens-again-{next(SERIAL)}" if client is self.guest else self.directory / "listens-again"
        hasty = program.hasty and client is self.guest
        hold = {"LD_PRELOAD": preload.TELLS}
        hold |= {"UROCE_TEST_CONNECTS_AGAIN_AFTER": go_on} if program.twice else {}
        hold |= {"UROCE_TEST_LEAVES_AFTER": go_on} if hasty else {}
        calling = self.launch(program, client, server, hold)
        ended = []
        if hasty:
            ended.append((self.end(listening), listening))
            self.shell(client, f": >{go_on}")
        if program.twice:
            self.await_file(server, listening, f"{told}.2")
            self.shell(client, f": >{go_on}")
        ended.append((self.end(calling), calling))
        if program.stays:
            self.stop(listening)
        elif not hasty:
            ended.append((self.end(listening), listening))
        both = "\n".join(str(running) for running in (calling, listening))
        for code, running in ended:
            self.assertEqual(code, 0, both)
            self.assertRegex(running.output, program.says, both)
        return [running.output for _, running in ended]

    def run_rcopy(self, server, client):
        """A file over rsockets, into the other side's folder of its own."""
        number = next(SERIAL)
        source, copy = (f"/run/{name}-{number}" if side is self.guest else f"{self.directory}/{name}"
                        for name, side in (("source", client), ("copy", server)))
        self.shell(client, f"head -c 1000003 /dev/urandom >{source}")
        program = Program("rcopy", f" {source} {{rdma}}:{copy}", says="(?s).?", stays=True, **CM)
        self.run_case(program, server, client)
        self.assertEqual(self.shell(server, f"sha256sum <{copy}"), self.shell(client, f"sha256sum <{source}"))

    def shell(self, side, command):
        """Output of a command that must succeed."""
        if side is self.guest:
            return self.rig.guest.run(command).strip()
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=True).stdout.strip()

    def launch(self, program, side, server, env):
        command = program.command + (program.server if side is server else program.client)
        if side is not server and program.client_program:
            command = program.client_program + command.removeprefix(program.command)
        command = command.format(device=side.device, gid=side.gid[program.family], rdma=server.addresses[program.family],
                                 own=side.addresses[program.family], peer=guests.COMMANDS[0 if server is self.host else 1])
        if program.ready not in ("listen", "bind") and "UROCE_TEST_LEAVES_AFTER" not in env:
            env = {}
        if side is self.guest:
            settings = " ".join(f"{key}={value}" for key, value in env.items())
            return self.rig.guest.start(f"{settings} exec {command}", LIMIT)
        return self.rig.on_host(*command.split(), env=env)

    def end(self, running):
        return running.finish() if hasattr(running, "finish") else running.wait(LIMIT)

    def stop(self, running):
        """Ends a server that is still there."""
        if hasattr(running, "finish"):
            self.rig.guest.run(f"kill {running.pid}")
            self.assertEqual(running.finish(), 128 + signal.SIGTERM, str(running))
        else:
            self.assertIsNone(running.process.poll(), f"the server ended: {running}")
            running.kill()

    def await_server(self, program, side, running, told):
        if program.ready in ("listen", "bind"):
            self.await_file(side, running, told)
        elif program.ready != "tcp":
            running.wait_for(program.ready, LIMIT)
        elif side is self.guest:
            self.rig.guest.run(f"until grep -q ':{PORT:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done", LIMIT)
        else:
            self.await_on_host(running, lambda: pairs.listens(PORT))

    def await_file(self, side, running, file):
        if side is self.guest:
            self.rig.guest.run(f"until [ -e {file} ]; do sleep 0.05; done", LIMIT)
        else:
            self.await_on_host(running, lambda: os.path.exists(file))

    def await_on_host(self, running, listens):
        limit = time.monotonic() + LIMIT * harness.SLOW
        while not listens():
            self.assertIsNone(running.process.poll(), f"ended before it listened: {running}")
            self.assertLess(time.monotonic(), limit, f"does not listen: {running}")
            time.sleep(0.02)


class Programs(Runs, interop.Case):
    """A method per program and direction; see `add_cases`."""


class TimeWait(Runs, interop.Case):
    LINGER = harness.BUILD / "tests" / "system" / "clients" / "client_linger"

    def test_a_connection_rests_as_long_as_with_linux(self):
        """Programs such as SPDK's linger for a second after DISCONNECTED, and acknowledge no event meanwhile."""
        rests = {}
        program = Program(f"{self.LINGER}", " client {rdma} 7471", " server {own} 7471", says="timewait_ms", **CM)
        for server, client in ((self.host, self.guest), (self.guest, self.host)):
            outputs = self.run_both(program, server, client)
            for end, side, output in zip(("client", "server"), (client, server), outputs):
                rests[end, side.name] = json.loads(output.splitlines()[-1])["timewait_ms"]
        linux = rests["client", "rxe"]
        self.assertGreaterEqual(linux, 2000, rests)
        for end in ("client", "server"):
            self.assertGreaterEqual(rests[end, "uroce"], 2000, rests)
            self.assertLess(abs(rests[end, "uroce"] - linux), 1000, rests)


def add_programs(to, programs):
    for program in programs:
        for server, client in (("host", "guest"), ("guest", "host")):
            def case(self, program=program, server=server, client=client):
                self.run_case(program, getattr(self, server), getattr(self, client))
            setattr(to, f"test_{program.name}_from_{NAMES[client]}", case)


def add_cases():
    add_programs(Programs, PROGRAMS)
    for server, client in (("host", "guest"), ("guest", "host")):
        def copy(self, server=server, client=client):
            self.run_rcopy(getattr(self, server), getattr(self, client))
        setattr(Programs, f"test_rcopy_from_{NAMES[client]}", copy)


add_cases()
