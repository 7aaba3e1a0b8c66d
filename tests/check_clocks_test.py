#!/usr/bin/env python3
"""check_clocks.py finds each form of a verdict by time, and nothing else."""

import pathlib
import tempfile
import unittest

import check_clocks

FAULTS = {
    "system/test_a.py": (
        "        self.assertLess(used / took, 0.02)\n",
        "        self.assertLess(time.monotonic() - begin, 5)\n",
        "        self.assertLessEqual(max(elapsed, 1), 3 * SLOW)\n",
        "        self.assertLess(\n            opened[\"connect_s\"] / MANY, LIMIT)\n",
        "        with open(f\"{task}/schedstat\") as file:\n",
        "        return resource.getrusage(resource.RUSAGE_SELF).ru_utime\n",
        "        limit = time.monotonic() + 5 * harness.SLOW\n",
        "        client.wait(15)\n",
        "        program.wait_for(\"ready\", 10)\n",
    ),
    "unit/base/a_test.cc": (
        "  EXPECT_LT(Clock::now() - start, seconds(10));\n",
        "  EXPECT_LT(took, 10s);\n",
        "  ASSERT_LE(std::chrono::steady_clock::now() - start, limit) << \"late\";\n",
        "  getrusage(RUSAGE_SELF, &used), cpu += used.ru_stime.tv_usec;\n",
    ),
}
FINE = {
    "system/test_a.py": (
        "            self.assertLess(time.monotonic(), limit, f\"took {state}\")\n",
        "        self.assertLessEqual(lines, 20 + (time.monotonic() - began))\n",
        "        self.assertGreater(time.monotonic() - began, 5.9)\n",
        "        limit = time.monotonic() + 20 * SLOW\n",
        "        program.wait_for(\"a, 5\", 20)\n",
        "        waits = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw\n",
    ),
    "unit/base/a_test.cc": (
        "  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));\n",
        "  ASSERT_LT(Clock::now(), until) << \"no completion\";\n",
        "  EXPECT_GE(Clock::now() - from, 40ms);\n",
        "  EXPECT_LT(faults() - before, 7);\n",
    ),
    "system/clients/a.cc": ("  return seconds(use.ru_utime);\n",),
    "bench/run.py": ("        self.assertLess(took, 1)\n",),
}


class Clocks(unittest.TestCase):
    def found(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            path = root / "tests" / name
            path.parent.mkdir(parents=True)
            path.write_text("\n" + text)
            return [fault for one in check_clocks.files(root) for fault in check_clocks.faults(one)]

    def test_each_form_is_found(self):
        for name, texts in FAULTS.items():
            for text in texts:
                with self.subTest(text):
                    found = self.found(name, text)
                    self.assertEqual([line for line, _ in found], [2], found)

    def test_nothing_else_is(self):
        for name, texts in FINE.items():
            for text in texts:
                with self.subTest(text):
                    self.assertEqual(self.found(name, text), [])


if __name__ == "__main__":
    unittest.main()
