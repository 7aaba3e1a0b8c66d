#!/usr/bin/env python3
"""check_prose.py finds each kind of sentence that has to be read twice, and lets plain ones be."""

import pathlib
import tempfile
import unittest

import check_prose

FAULTS = {
    "relatives": ("Who sends nothing needs no answer.", "It waits. What came before is found now."),
    "phrases": ("Of the program.", "It has a number. Of all devices together, for privileged users.", "For tests.", "Before hello().",
                "By the interface's name.", "In port order."),
    "subjects": ("It counts rounds; who acts on it sets it to 0.", "A client may remove pages, and who accesses them meanwhile waits for it.",
                 "It is first, so that whoever polls it finds room.", "Drivers may leave any flag: what comes from outside is checked."),
    "subjunctives": ("It stays where it were.",),
}
FINE = (
    "Who has it?",
    "The text of the program.",
    "Of equal priorities the oldest alone takes the frame.",
    "Of init only the choices of recovery count.",
    "For a card bound to vfio-pci, let the user open its group.",
    "Without them use net_af_packet.",
    "Of a process: resident KiB and threads.",
    "At most 64.",
    "With the fence, one of the two sees the other's store.",
    "Under systemd the unit allows no IP traffic.",
    "It decides who may use the devices.",
    "A port's neighbours: who answers for its addresses, and how it finds them.",
    "Users who share a daemon: each has its budget.",
    "It tells what the QP's turn reads and writes.",
    "They stay where they were.",
)


def kinds_of(text, name="a.h", comment="// {}\n"):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, name)
        file.write_text(comment.format(text))
        return [kind.__name__ for kind in (check_prose.relatives, check_prose.phrases, check_prose.subjects, check_prose.subjunctives)
                for _ in check_prose.faults(file, (kind,))]


class CheckProse(unittest.TestCase):
    def test_faults(self):
        for kind, texts in FAULTS.items():
            for text in texts:
                with self.subTest(text=text):
                    self.assertEqual(kinds_of(text), [kind])

    def test_plain_sentences(self):
        for text in FINE:
            with self.subTest(text=text):
                self.assertEqual(kinds_of(text), [])

    def test_it_reads_documents_scripts_and_docstrings(self):
        self.assertEqual(kinds_of("For tests.", "a.md", "# A heading\n\n{}\n"), ["phrases"])
        self.assertEqual(kinds_of("For tests.", "a.py", '"""{}"""\n'), ["phrases"])
        self.assertEqual(kinds_of("For tests.", "a.py", "# {}\n"), ["phrases"])

    def test_headings_and_code_are_no_sentences(self):
        self.assertEqual(kinds_of("Between two hosts", "a.md", "# {}\n\ntext\n"), [])
        self.assertEqual(kinds_of("For tests.", "a.md", "```\n{}\n```\n"), [])

    def test_the_line_of_a_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "a.h")
            file.write_text("int a;\n// It counts.\n// Of the\n// program.\n")
            self.assertEqual([line for line, *_ in check_prose.faults(file)], [3])


if __name__ == "__main__":
    unittest.main()
