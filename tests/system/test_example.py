#!/usr/bin/env python3
"""The example of include/README.md: the text there is the program here, and it runs."""

import re

import harness
from harness import BUILD, CPUS, SOURCE, eal

EXAMPLE = BUILD / "tests" / "system" / "example" / "example"
PROGRAM = SOURCE / "tests" / "system" / "example" / "example.cc"
README = SOURCE / "include" / "README.md"


class Example(harness.Case):
    def test_readme_has_the_program_that_is_tested(self):
        blocks = re.findall(r"^```cpp\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
        self.assertIn(PROGRAM.read_text(), blocks)

    def run_example(self, *args, code=0, **kw):
        return self.finish(self.start([EXAMPLE, *eal(*args, **kw)]), 60, code)

    def test_embedded(self):
        self.assertIn("WRITE of 1048576 bytes and SEND of 22 bytes verified", self.run_example())

    def test_without_hugepages(self):
        self.assertIn("verified", self.run_example(huge=False))

    def test_with_a_worker_lcore(self):
        cores = ",".join(map(str, CPUS[:2])) if len(CPUS) > 1 else f"(0,1)@{CPUS[0]}"
        self.assertIn("verified", self.run_example(lcores=cores))

    def test_says_what_is_wrong(self):
        output = self.run_example("--no-such-option", code=1)
        self.assertIn("example: ", output)
        self.assertIn("no-such-option", output)


if __name__ == "__main__":
    harness.main()
