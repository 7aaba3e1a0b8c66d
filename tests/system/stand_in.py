#!/usr/bin/env python3
"""Stands in for uroced below its supervisor, in its place on the disk. It does the words of the file `plan` beside it, the next one
in each run, and writes down in `told` what each run was given."""

import json
import os
import pathlib
import signal
import socket
import time

HERE = pathlib.Path(__file__).resolve().parent


def notify(text, *fds):
    """As sd_notify(3), and the barrier as sd_notify_barrier(3)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
        socket.send_fds(one, [text.encode()], fds)
        ours, theirs = os.pipe()
        socket.send_fds(one, [b"BARRIER=1"], [theirs])
        os.close(theirs)
        assert os.read(ours, 1) == b""
        os.close(ours)


def keep(content):
    """Leaves a file for the next run."""
    file = os.memfd_create("estate")
    os.write(file, content.encode())
    notify("FDSTORE=1\nFDNAME=uroce-estate\nFDPOLL=0", file)


def told():
    """The supervisor gave this to the run."""
    given = os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ["LISTEN_FDS"] == "1"
    return {"pid": os.getpid(), "name": os.environ.get("LISTEN_FDNAMES"), "room": os.environ["FDSTORE"],
            "watched": os.environ.get("WATCHDOG_PID") == str(os.getpid()),
            "estate": os.pread(3, 1000, 0).decode() if given and os.path.realpath("/proc/self/fd/3").startswith("/memfd:") else given,
            "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]}


def left_behind(act):
    """Forks a child that acts once this process has ended. This one learns the child's id."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)
        act()
        os._exit(0)
    os.close(ours)
    os.set_inheritable(theirs, False)  # its end is this process's
    (HERE / "id").write_text(str(child))
    (HERE / "id").rename(HERE / "left")  # whole


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    plan = HERE / "plan"
    word, *rest = plan.read_text().split()
    plan.write_text(" ".join(rest or [word]))
    row = json.dumps(told()) + "\n"
    with (HERE / "told").open("a") as file:
        file.write(row)
    if word == "crash":
        die()
    elif word == "keep-and-crash":
        keep("left by the daemon")
        die()
    elif word == "keeper":
        left_behind(lambda: keep("left by its keeper"))
        notify("FDSTOREREMOVE=1\nFDNAME=uroce-estate")
        die()
    elif word == "linger":
        left_behind(lambda: time.sleep(1000))
        die()
    elif word == "forget-and-crash":
        notify("FDSTOREREMOVE=1\nFDNAME=uroce-estate")
        die()
    elif word == "fail":
        raise SystemExit(1)
    elif word == "wait":
        signal.signal(signal.SIGINT, lambda *_: os._exit(7))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        (HERE / "waits").touch()
        while True:
            signal.pause()


main()
