"""A capture of an interface while a test runs, read by tshark."""

import subprocess
import time

import harness


class Capture:
    """dumpcap on `interface` in the namespace `space`, with the capture filter `only`. `limits`: more of its options."""

    def __init__(self, case, space, interface, only, *limits):
        self.case = case
        self.file = case.directory / f"{interface}-{time.monotonic_ns()}.pcap"
        self.dump = case.start(["dumpcap", "-q", "-P", "-i", interface, "-f", only, *limits, "-w", self.file], space)
        self.dump.wait_for("File:", 20)

    def lines(self, display, *fields):
        """The packets captured so far, through a filter; with `fields`, only those."""
        args = ["tshark", "-r", self.file, "-Y", display]
        if fields:
            args += ["-T", "fields", *(word for field in fields for word in ("-e", field))]
        done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120 * harness.SLOW, check=False)
        return done.stdout.splitlines()

    def wait_for(self, count, display, *fields, seconds=20):
        """The packets, once there are `count`."""
        limit = time.monotonic() + seconds * harness.SLOW
        while len(lines := self.lines(display, *fields)) < count:
            if time.monotonic() > limit:
                raise AssertionError(f"{len(lines)} of {count} frames '{display}' came; there were\n" +
                                     "\n".join(self.lines("frame")[:40]))
            time.sleep(0.1)
        return lines

    def sees(self, count, display, program, seconds=300):
        """Whether `count` packets come while `program` runs."""
        limit = time.monotonic() + seconds * harness.SLOW
        while program.process.poll() is None and time.monotonic() < limit:
            if len(self.lines(display)) >= count:
                return True
            time.sleep(0.1)
        return len(self.lines(display)) >= count

    def end(self):
        """No frame was malformed."""
        self.dump.process.terminate()
        self.dump.wait(20)
        self.case.assertEqual(self.lines("_ws.malformed || _ws.expert.severity == error"), [])
