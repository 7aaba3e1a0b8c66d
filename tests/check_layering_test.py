#!/usr/bin/env python3
"""check_layering.py finds what it is there to find: each test puts one fault into a small tree of sources."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_layering

ALLOWED = {"base": (), "wire": ("base",), "transport": ("base", "wire"), "pmd_glue": ("transport",)}
SUBFOLDERS = {"transport/loss": (), "transport/qp": ("transport/loss",)}

# Sources that obey the tables above and use each of their edges.
CLEAN = {
    "include/uroce/types.h": "#include <cstdint>\n",
    "lib/base/psn.h": "#include <uroce/types.h>\n",
    "lib/wire/headers.h": '#include "base/psn.h"\n',
    "lib/transport/loss/detector.h": '#include "base/psn.h"\n',
    "lib/transport/loss/detector.cc": '#include "transport/loss/detector.h"\n',
    "lib/transport/qp/qp.h": '#include "transport/loss/detector.h"\n#include "wire/headers.h"\n',
    "lib/transport/qp/qp_impl.h": '#include "transport/qp/qp.h"\n',
    "lib/transport/qp/qp.cc": '#include "transport/qp/qp.h"\n#include "transport/qp/qp_impl.h"\n',
    "pmd_glue/port.cc": '#include <rte_ethdev.h>\n#include "transport/qp/qp.h"\n',
}


class Layering(unittest.TestCase):
    def faults(self, changes, allowed=None):
        """The faults found in CLEAN with `changes`, as "path:line: text"."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**CLEAN, **changes}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = check_layering.faults(root, allowed or ALLOWED, SUBFOLDERS)
            return [f"{path}:{line}: {text}" for path, line, text in found]

    def expect_one(self, found, *parts):
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_clean_tree(self):
        self.assertEqual(self.faults({}), [])

    def test_folder_that_may_not_be_included(self):
        found = self.faults({"lib/wire/text.h": '\n#include "transport/qp/qp.h"\n'})
        forbidden, cycle = [x for x in found if "may not" in x], [x for x in found if "folders include" in x]
        self.expect_one(forbidden, "lib/wire/text.h:2: ", "wire may not include transport/qp", "turn it round")
        self.assertEqual(len(cycle), 1, found)

    def test_subfolder_that_may_not_be_included(self):
        found = self.faults({"lib/transport/loss/rtt.h": '#include "transport/qp/state.h"\n', "lib/transport/qp/state.h": ""})
        self.assertTrue(found[0].startswith("lib/transport/loss/rtt.h:1: "), found)
        self.assertIn("transport/loss may not include transport/qp", found[0])

    def test_file_cycle(self):
        found = self.faults({"lib/base/psn.h": '#include <cstdint>\n#include "base/time.h"\n', "lib/base/time.h": '#include "base/psn.h"\n'})
        self.expect_one(found, "lib/base/psn.h:2: ", "lib/base/psn -> lib/base/time -> lib/base/psn", "lib/base/time.h:1")

    def test_file_cycle_through_a_source_file(self):
        changes = {"lib/base/psn.cc": '#include "base/psn.h"\n\n#include "base/time.h"\n', "lib/base/time.h": '#include "base/psn.h"\n'}
        self.expect_one(self.faults(changes), "lib/base/psn.cc:3: ", "lib/base/time.h:1", "forward")

    def test_file_cycle_of_three(self):
        changes = {f"lib/base/{a}.h": f'#include "base/{b}.h"\n' for a, b in ("xy", "yz", "zx")}
        self.expect_one(self.faults(changes), "lib/base/x.h:1: ", "lib/base/y.h:1, lib/base/z.h:1")

    def test_cycle_of_public_headers(self):
        changes = {"include/uroce/types.h": "#include <uroce/qp.h>\n", "include/uroce/qp.h": "#include <uroce/types.h>\n"}
        self.expect_one(self.faults(changes), "files include each other", "include/uroce/qp -> include/uroce/types")

    def test_folder_cycle(self):
        both = {**ALLOWED, "base": ("wire",)}
        found = self.faults({"lib/base/log.h": '#include "wire/text.h"\n', "lib/wire/text.h": ""}, both)
        folders = [x for x in found if "folders include each other" in x]
        self.expect_one(folders, "base -> wire -> base", "lib/base/log.h:1: ", "lib/wire/headers.h:1")
        tables = [x for x in found if "the tables allow" in x]
        self.expect_one(tables, "base -> wire -> base", "remove one")

    def test_edge_that_nothing_uses(self):
        found = self.faults({}, {**ALLOWED, "wire": ("base", "memory"), "memory": ()})
        self.expect_one(found, "tests/check_layering.py:1: ", "wire include memory", "remove it")

    def test_folder_without_a_row(self):
        found = self.faults({"lib/extra/a.h": "", "lib/extra/b.h": "", "lib/stray.h": ""})
        self.assertEqual(len(found), 2, found)
        self.assertTrue(found[0].startswith("lib/extra/a.h:1: extra is a new folder"), found)
        self.assertTrue(found[1].startswith("lib/stray.h:1: belongs to no folder"), found)

    def test_dpdk_in_lib(self):
        found = self.faults({"lib/base/buffer.h": "\n\n#include <rte_mbuf.h>\n"})
        self.expect_one(found, "lib/base/buffer.h:3: ", "<rte_mbuf.h>", "only pmd_glue")

    def test_cli11_in_a_program(self):
        found = self.faults({"apps/uroce/command_line.cc": "#include <CLI/CLI.hpp>\n"}, {**ALLOWED, "apps/uroce": ()})
        self.expect_one(found, "apps/uroce/command_line.cc:1: ", "<CLI/CLI.hpp>", "only apps/arguments/program.cc")
        self.assertEqual(self.faults({"apps/arguments/program.cc": "#include <CLI/CLI.hpp>\n"}, {**ALLOWED, "apps/arguments": ()}), [])

    def test_clock_in_code_that_is_replayed(self):
        found = self.faults({"lib/wire/now.cc": "auto now() {\n  return std::chrono::steady_clock::now();\n}\n"})
        self.expect_one(found, "lib/wire/now.cc:2: ", "take it as an argument")

    def test_private_header_in_a_public_one(self):
        found = self.faults({"include/uroce/qp.h": '#include "types.h"\n'})
        self.expect_one(found, "include/uroce/qp.h:1: ", "a public header includes")

    def test_readme_says_other_edges(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lib").mkdir()
            (root / "lib/README.md").write_text("| `lib/base/` | types | nothing | |\n| `lib/wire/` | headers | nothing | |\n")
            found = [f"{path}:{line}: {text}" for path, line, text in check_layering.readme_faults(root, {"base": (), "wire": ("base",)})]
            self.expect_one(found, "lib/README.md:2: ", "the row of wire", "write: base")

    def test_readme_names_what_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lib/net").mkdir(parents=True)
            (root / "lib/net/arp.h").write_text("namespace uroce::net {\nclass Arp {\n};\n}\n")
            rows = ["| `net::Arp` | ARP | `lib/net/arp.h` |", "| `net::Rarp` | RARP | `lib/net/rarp.h` |"]
            (root / "lib/README.md").write_text("\n".join(rows))
            found = [f"{path}:{line}: {text}" for path, line, text in check_layering.glossary_faults(check_layering.Tree(root))]
            self.assertEqual(len(found), 2, found)
            self.assertTrue(found[0].startswith("lib/README.md:2: there is no lib/net/rarp.h"), found)
            self.assertTrue(found[1].startswith("lib/README.md:2: there is no net::Rarp"), found)

    def test_exit_code_and_empty_root(self):
        program = [sys.executable, pathlib.Path(__file__).with_name("check_layering.py")]
        with tempfile.TemporaryDirectory() as folder:
            empty = subprocess.run([*program, folder], capture_output=True, text=True, check=False)
            self.assertEqual((empty.returncode, "no sources" in empty.stderr), (1, True))
            (pathlib.Path(folder) / "lib/base").mkdir(parents=True)
            (pathlib.Path(folder) / "lib/README.md").write_text("")
            (pathlib.Path(folder) / "lib/base/a.h").write_text("#include <rte_mbuf.h>\n")
            bad = subprocess.run([*program, folder], capture_output=True, text=True, check=False)
            self.assertEqual(bad.returncode, 1)
            self.assertIn("lib/base/a.h:1: <rte_mbuf.h>", bad.stdout)


if __name__ == "__main__":
    unittest.main()
