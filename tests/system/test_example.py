#!/usr/bin/env python3
"""The examples of include/README.md: the texts there are the programs here, and they run."""

import re

import harness
from harness import BUILD, CPUS, SOURCE, eal

EXAMPLE = BUILD / "tests" / "system" / "example" / "example"
EMBEDDED = EXAMPLE.with_name("embedded")
PROGRAMS = [SOURCE / "tests" / "system" / "example" / name for name in ("example.cc", "embedded.cc")]
README = SOURCE / "include" / "README.md"


class Example(harness.Case):
    def test_readme_has_the_programs_that_are_tested(self):
        blocks = re.findall(r"^```cpp\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
        for program in PROGRAMS:
            self.assertIn(program.read_text(), blocks)
            self.assertLess(program.read_text().count("\n"), 100)

    def run_example(self, *args, code=0, **kw):
        return self.finish(self.start([EXAMPLE, *eal(*args, **kw)]), 60, code)

    def test_embedded(self):
        self.assertIn("WRITE of 1048576 bytes and SEND of 22 bytes verified", self.run_example())

    def test_with_a_worker_lcore(self):
        cores = ",".join(map(str, CPUS[:2])) if len(CPUS) > 1 else f"(0,1)@{CPUS[0]}"
        self.assertIn("verified", self.run_example(lcores=cores))

    def test_says_what_is_wrong(self):
        output = self.run_example("--no-such-option", code=1)
        self.assertIn("example: ", output)
        self.assertIn("no-such-option", output)


class Embedded(harness.Case):
    def pair(self, lcores="0"):
        socket = self.directory / "m.sock"
        memif = f"--vdev=net_memif0,socket={socket},role="
        server = self.start([EMBEDDED, "10.117.0.1/24", "--", *eal(memif + "server", lcores=lcores)])
        server.wait_for("listening", 20)  # a worker lcore's engine answers before that, and rejects
        client = self.start([EMBEDDED, "10.117.0.2/24", "10.117.0.1", "--", *eal(memif + "client", lcores=lcores)])
        self.finish(client, 60)
        return self.finish(server, 60)

    def test_in_one_thread(self):
        self.assertIn("SEND of 38 bytes verified", self.pair())

    def test_with_a_worker_lcore(self):
        cores = ",".join(map(str, CPUS[:2])) if len(CPUS) > 1 else f"(0,1)@{CPUS[0]}"
        self.assertIn("SEND of 38 bytes verified", self.pair(cores))

    def test_nobody_listens(self):
        output = self.finish(self.start([EMBEDDED, "10.117.0.1/24", "10.117.0.2", "--", *eal("--vdev=net_null0")]), 60, 1)
        self.assertIn("embedded: event 1, status -110", output)  # addr_error, ETIMEDOUT


if __name__ == "__main__":
    harness.main()
