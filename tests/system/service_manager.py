"""A service manager as sd_notify(3) describes systemd's: readiness, main process, watchdog, and the store of descriptors."""

import array
import contextlib
import fcntl
import os
import socket
import threading
import time

import harness

# Descriptor 3, as sd_listen_fds(3) wants it, and the process's own id.
LAUNCH = 'test -z "$STORED" || { exec 3<&"$STORED"-; export LISTEN_PID=$$ LISTEN_FDS=1; }; export WATCHDOG_PID=$$; exec "$@"'


class ServiceManager:
    """`room`: of the store, for so many descriptors; None: there is none. `seen_as`: the path of its socket, for the service.
    `delay_s`: until it closes what it is to forget."""

    def __init__(self, case, room=16, watchdog_us=None, folder=None, seen_as=None, delay_s=0):
        self.case, self.room, self.watchdog_us, self.delay_s = case, room, watchdog_us, delay_s
        self.stored, self.said, self.main_pid = {}, [], None
        self.path = (folder or case.directory) / f"notify-{id(self)}"
        self.seen_as = f"{seen_as}/{self.path.name}" if seen_as else str(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.path.chmod(0o777)
        self.heard = threading.Condition()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()
        case.addCleanup(self.close)

    def close(self):
        if self.thread.is_alive():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
                own.sendto(b"END", str(self.path))
            self.thread.join()
            self.socket.close()
        self.drop()

    def drop(self):
        """As systemd does when a service is stopped and not to start again."""
        for fd in self.stored.values():
            os.close(fd)
        self.stored = {}

    def listen(self):
        while True:
            data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4 * 253))
            fds = array.array("i")
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(content)
            if data == b"END":
                return
            with self.heard:
                self.handle(dict(line.split("=", 1) for line in data.decode().splitlines()), list(fds))
                self.heard.notify_all()

    def handle(self, words, fds):
        self.said.append(words)
        name = words.get("FDNAME", "stored")
        if "FDSTOREREMOVE" in words and name in self.stored:
            time.sleep(self.delay_s)
            os.close(self.stored.pop(name))
        if "FDSTORE" in words and len(self.stored) + len(fds) <= (self.room or 0):
            for fd in fds:
                self.stored[name] = fd
        else:
            for fd in fds:  # with BARRIER=1 its end is the answer
                os.close(fd)
        if "MAINPID" in words:
            self.main_pid = int(words["MAINPID"])

    def wait_for(self, word, seconds=20):
        """Until the service has said this, since the last start."""
        limit = time.monotonic() + seconds * harness.SLOW
        with self.heard:
            while not any(word in words for words in self.said):
                assert self.heard.wait(limit - time.monotonic()), f"no {word}: {self.said}"

    def start(self, command, namespace=None):
        """The service's main process, with what is stored."""
        self.said = []
        env = {"NOTIFY_SOCKET": self.seen_as}
        if self.room is not None:
            env["FDSTORE"] = str(self.room)
        if self.watchdog_us:
            env["WATCHDOG_USEC"] = str(self.watchdog_us)
        with contextlib.ExitStack() as ends:
            if self.stored:
                (name, fd), = self.stored.items()
                copy = fcntl.fcntl(fd, fcntl.F_DUPFD, 10)  # bash makes it 3
                ends.callback(os.close, copy)
                env |= {"STORED": str(copy), "LISTEN_FDNAMES": name}
                pass_fds = (copy,)
            else:
                pass_fds = ()
            program = harness.Program(["bash", "-c", LAUNCH, "bash", *command], self.case.directory, namespace, env, pass_fds)
        self.case.addCleanup(program.kill)
        self.main_pid = program.process.pid
        return program
