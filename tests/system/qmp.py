"""QEMU's monitor protocol (QMP)."""

import json
import socket
import time

import harness


class Monitor:
    """The monitor of a QEMU that was started with `-qmp unix:PATH,server=on,wait=off`. Waits until QEMU has made the socket."""

    def __init__(self, path):
        limit = time.monotonic() + 20 * harness.SLOW
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.05)
        self.socket.settimeout(30 * harness.SLOW)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        """The command's result. Events that come before it are dropped."""
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while "event" in (reply := json.loads(self.file.readline())):
            pass
        if "error" in reply:
            raise AssertionError(f"QEMU: {command} {arguments}: {reply['error']}")
        return reply["return"]
