#!/usr/bin/env python3
"""The data of the benchmarks, and the documents that tests/bench/report makes of them."""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import results  # noqa: E402


def program(name):
    """A command without the ending of a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


report, programs, run_nvmf, run_services = (program(name) for name in ("report", "run_programs", "run_nvmf", "run_services"))
OLD, NEW = ({"date": date, "machine": "m", "command": "c"} for date in ("2026-01-01", "2026-02-02"))


class Results(unittest.TestCase):
    def test_a_later_measurement_replaces_what_it_measured(self):
        first = results.merged({"runs": {}, "cells": []}, [results.cell("a", "x", [1, 2, 4]), results.cell("b", "x", 5)], OLD)
        second = results.merged(first, [results.cell("a", "x", 3), results.cell("c", "x", 6)], NEW)
        self.assertEqual([(c["row"], c["median"], second["runs"][c["run"]]["date"]) for c in second["cells"]],
                         [("a", 3, NEW["date"]), ("b", 5, OLD["date"]), ("c", 6, NEW["date"])])

    def test_a_run_without_figures_goes(self):
        first = results.merged({"runs": {}, "cells": []}, [results.cell("a", "x", 1)], OLD)
        self.assertEqual(list(results.merged(first, [results.cell("a", "x", 2)], NEW)["runs"].values()), [NEW])

    def test_spread(self):
        self.assertEqual(results.cell("a", "x", [3, 1, 2], ("least", 2)),
                         {"row": "a", "column": "x", "median": 2, "least": 1, "most": 3, "goal": ["least", 2]})

    def test_goals(self):
        self.assertTrue(results.missed({"median": 1.0, "goal": ["least", 1.5]}))
        self.assertTrue(results.missed({"median": 2.0, "goal": ["most", 1.5]}))
        self.assertFalse(results.missed({"median": 1.5, "goal": ["least", 1.5]}))
        self.assertTrue(results.missed({"least": 0.9, "most": 1.3, "goal": ["least", 2]}))
        self.assertFalse(results.missed({"median": 1.0}))


class Report(unittest.TestCase):
    def test_each_subject_has_data_and_a_place(self):
        named = re.findall(r"^\{\{(\w+)\}\}$", report.TEMPLATE.read_text(), re.MULTILINE)
        self.assertEqual(sorted(named), sorted(report.SUBJECTS))
        kept = {file.stem for file in results.FOLDER.glob("*.json")}
        self.assertEqual(kept - {"demo"}, set(named))

    def test_numbers(self):
        self.assertEqual([report.number(v) for v in (12280, 352, 123.4, 22.44, 0.531, 1.0)], ["12,280", "352", "123", "22.4", "0.531", "1"])

    def test_a_missed_goal_is_bold(self):
        data = report.Data("pair")
        data.cells = {(c["row"], "ratio"): c for c in (
            results.cell("a", "ratio", 0.8, ("least", 0.9)), results.cell("b", "ratio", 0.9, ("least", 0.9)))}
        self.assertIn("**", data.text("a", "ratio"))
        self.assertNotIn("**", data.text("b", "ratio"))

    def test_a_change_has_the_figure_before_and_the_goal_of_the_one_after(self):
        data = report.Data("registration")
        data.cells = {(c["row"], c["column"]): c for c in (
            results.cell("a", "before us", [300, 302]), results.cell("a", "us", 70, ("most", 50)), results.cell("b", "us", 40, ("most", 50)))}
        self.assertEqual([data.change(row, "us") for row in "abc"], ["**301→70**", "40", ""])

    def test_figures_are_put_between_their_marks(self):
        marks = "".join(f"before\n<!-- figures: {name} -->\nold\n<!-- end of figures -->\nafter\n" for name in report.FIGURES)
        text = report.with_figures(marks)
        self.assertNotIn("old", text)
        self.assertEqual(text.count("after"), len(report.FIGURES))
        self.assertEqual(report.with_figures(text), text)


class Programs(unittest.TestCase):
    def test_many(self):
        cells = programs.many_cells("  max_dest_rd_atomic  1,   1 send work requests                  2147\n"
                                    "         16          7.64 M      1.00    1.00    1.00\n"
                                    "      10000          3.90 M      0.50    0.48    0.52\n")
        self.assertEqual([(c["row"], c["column"], c["median"]) for c in cells],
                         [("1 READ, 1 send work request", "bytes", 2147), ("16", "rate", 7.64), ("10000", "rate", 3.9), ("10000", "ratio", 0.5)])

    def test_nvmf(self):
        cells = programs.nvmf_cells("memory", "memory:16M    local us  remote us\n"
                                              "4 KiB random reads, 1 at once                0.15       3.90       3.75       0.09       1.58       1.49        8.4\n")
        self.assertEqual(len(cells), 6)
        self.assertEqual((cells[1]["row"], cells[1]["column"], cells[1]["median"]), ("memory: 4 KiB random reads, 1 at once", "remote us", 3.9))

    def test_icrc(self):
        text = '{"benchmarks": [{"name": "icrc/avx2/copy/cold/4096/min_time:0.020/manual_time", "ns": 233.0, "times_memcpy": 1.4}]}'
        self.assertEqual([(c["row"], c["column"], c["median"]) for c in programs.icrc_cells(text)],
                         [("avx2/copy", "4096 cold", 233.0), ("avx2/copy", "4096 cold of memcpy", 1.4)])


class Services(unittest.TestCase):
    ROUNDS = [{"ceph": {way: dict.fromkeys(run_services.services.Ceph.TESTS, value) for way, value in one.items()}}
              for one in ({"tcp": 1000, "core": 500}, {"tcp": 4000, "core": 4000}, {"tcp": 2000, "core": 1800})]

    def test_ratios_are_of_each_round(self):
        cells = {(c["row"], c["column"]): c for c in run_services.cells_of(self.ROUNDS)}
        self.assertEqual(len(cells), 12)
        self.assertEqual(cells["ceph tcp", "ceph read 4k"]["median"], 2)
        ratio = cells["ceph core of tcp", "ceph read 4k"]
        self.assertEqual((ratio["median"], ratio["least"], ratio["most"], ratio["goal"]), (0.9, 0.5, 1, ["least", 1.0]))
        self.assertTrue(results.missed(ratio))

    def test_a_table_for_each_service(self):
        data = report.Data("pair")
        data.cells = {(c["row"], c["column"]): c for c in run_services.cells_of(self.ROUNDS)}
        lines = report.services(data)
        self.assertEqual([lines[0], *lines[2:4]], ["|ceph, of TCP|write 4k|read 4k|write 64k|read 64k|goal|", "|TCP, k/s|2|2|2|2||",
                                                   "|core|**0.9**|**0.9**|**0.9**|**0.9**|≥ 1|"])


class Nvmf(unittest.TestCase):
    SAID = ("Initialization complete. Launching workers.\n"
            "RDMA (addr:10.117.0.2 subnqn:nqn.2026-01.example:disks) NSID 1 from core  1:   40000.00     156.25      24.75       9.20     801.00\n"
            "{total}\n\n"
            "Summary latency data for RDMA (addr:10.117.0.2 subnqn:nqn.2026-01.example:disks) NSID 1 from core  1:\n"
            "  1.00000% :    12.345us\n 50.00000% :    24.100us\n 99.00000% :    80.500us\n 99.90000% :   190.250us\n 99.99000% :  1200.000us\n")
    TOTAL = "Total                                                                  :   40000.00     156.25      24.75       9.20     801.00"

    def test_what_perf_says(self):
        self.assertEqual(run_nvmf.figures_of(self.SAID.format(total=self.TOTAL)), {"kiops": 40, "p50": 24.1, "p99": 80.5, "p99.9": 190.25})
        self.assertIsNone(run_nvmf.figures_of("No valid NVMe controllers or AIO or URING devices found\n"))
        self.assertIsNone(run_nvmf.figures_of(self.SAID.format(total="Total   :       0.00       0.00       0.00       0.00       0.00")))

    def test_cells(self):
        self.assertEqual(len(set(map(str, run_nvmf.all_cells()))), 40)
        self.assertEqual([str(cell) for cell in run_nvmf.chosen("memory read *x4,device seqread *")],
                         ["memory read 1x4", "memory read 32x4", "memory read 128x4", "device seqread 8x1"])
        self.assertEqual(run_nvmf.chosen("memory reads"), [])

    def test_ratios_are_of_each_round(self):
        def figures(kiops, cpu):
            return {"kiops": kiops, "cpu": cpu, "p50": 1, "p99": 2, "p99.9": 3}

        rounds = [{"spdk": figures(10, 8), "uroce": figures(20, 10)}, {"spdk": figures(20, 5), "uroce": figures(20, 4)},
                  {"spdk": figures(10, 9), "uroce": figures(15, 10)}]
        cells = {c["column"]: c for c in run_nvmf.cells_of(run_nvmf.chosen("memory read 1x1")[0], rounds)}
        self.assertEqual((cells["rate"]["median"], cells["rate"]["least"], cells["rate"]["most"]), (1.5, 1, 2))
        self.assertEqual((cells["uroce kiops"]["median"], cells["spdk p99.9"]["median"]), (20, 3))
        self.assertEqual(cells["per core"]["median"], 0.9)
        self.assertTrue(results.missed(cells["per core"]))

    def test_each_pattern_and_disk_has_cells(self):
        self.assertEqual({cell.pattern for cell in run_nvmf.all_cells()}, set(run_nvmf.PATTERNS))
        self.assertEqual({cell.disk for cell in run_nvmf.all_cells()}, set(run_nvmf.DISKS))


if __name__ == "__main__":
    unittest.main()
