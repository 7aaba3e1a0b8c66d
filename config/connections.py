"""Drives the two programs that make many rdma_cm connections (tests/system/clients/connections.cc), a command at a time."""

import json
import os
import pathlib
import select
import subprocess

SERVER = "10.117.0.1"  # of `uroced --demo`


class SideError(Exception):
    """A program did not answer, or reported failed connections."""


class Side:
    """One program. `command` goes before it: uroce-run, perhaps under another program."""

    def __init__(self, command, build, socket, *role):
        program = pathlib.Path(build) / "tests" / "system" / "clients" / "client_connections"
        self.process = subprocess.Popen(
            [*map(str, command), str(program), *map(str, role)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "UROCE_SOCKET": str(socket)}, start_new_session=True)
        self.rest = b""

    def line(self, seconds):
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            got = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not got:
                raise SideError(f"{self.process.args} says nothing for {seconds} s, or ended: {self.process.poll()}")
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def ask(self, *words, seconds=120):
        """The answer to a command, with its counts."""
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()
        answer = json.loads(self.line(seconds))
        if answer["failed"]:
            raise SideError(f"{' '.join(map(str, words))}: {answer}")
        return answer

    def pid(self):
        """The process id of the program itself, a child of uroce-run."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else self.process.pid

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
            self.process.stdout.close()


class Sides:
    """Server and client, ready to connect. They have made a first connection, so that devices and neighbours are known."""

    def __init__(self, command, build, socket):
        self.server = Side(command, build, socket, "server", SERVER)
        self.client = None
        try:
            port = self.server.line(60).split()[1]
            self.client = Side(command, build, socket, "client", SERVER, port)
            self.client.ask("cycle", 1, 1)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in (self.client, self.server):
            if side is not None:
                side.end()
