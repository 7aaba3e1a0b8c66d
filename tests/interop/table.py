#!/usr/bin/env python3
"""Puts what a whole run of test_rxe.py found into the table of README.md: table.py BUILD/interop-results.json"""

import collections
import json
import pathlib
import sys

README = pathlib.Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
NAMES = {1 << 20: "1 MiB"}


def row_of(*cells):
    return "|" + "|".join(cells) + "|"


def head_of(*cells):
    return [row_of(*cells), "|-" * len(cells) + "|"]


def grouped(rows):
    """(names, value) for each value of the pairs (name, value)."""
    groups = collections.defaultdict(list)
    for name, value in rows:
        groups[value].append(name)
    return [(", ".join(names), value) for value, names in groups.items()]


def matrix(rows):
    """A line for the operations whose lengths agree: the lengths that arrived, by path MTU and requester."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    columns = sorted({(mtu, requester) for _, mtu, requester, *_ in rows})
    for op, mtu, requester, _, length in rows:
        found[op][mtu, requester].append(NAMES.get(length, str(length)))
    yield from head_of("operation", *(f"{requester} asks, MTU {mtu}" for mtu, requester in columns))
    for ops, cells in grouped((op, tuple(", ".join(by[column]) or "—" for column in columns)) for op, by in found.items()):
        yield row_of(ops, *cells)


def errors(rows):
    """A line for the errors of which requester and responder are told the same, by responder."""
    told = collections.defaultdict(dict)
    for name, op, responder, sent, received, _ in rows:
        told[name.replace("_", " ")][responder] = sent + (f"; receive: {received}" if received else "")
    yield from head_of("error", "uroce answers", "rxe answers")
    for names, (uroce, rxe) in grouped((name, (answers.get("uroce", "—"), answers.get("rxe", "—"))) for name, answers in told.items()):
        yield row_of(names, uroce, "the same" if rxe == uroce else rxe)


def programs(rows):
    """A line for the programs that ran over the same versions of IP, by server."""
    ran = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, family, server, _ in rows:
        ran[name][server].add(f"IPv{family}")
    yield from head_of("program", "server uroce, client rxe", "server rxe, client uroce")
    for names, cells in grouped((f"`{name}`", tuple(", ".join(sorted(ran[name][s])) or "—" for s in ("uroce", "rxe"))) for name in sorted(ran)):
        yield row_of(names, *cells)


def main():
    by_table = collections.defaultdict(list)
    for table, *values in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        by_table[table].append(values)
    parts = [f"### {title}\n\n" + "\n".join(make(by_table[name])) + "\n"
             for title, make, name in (("Operations: lengths in bytes", matrix, "matrix"), ("Errors", errors, "errors"),
                                       ("Programs", programs, "programs"))]
    text = README.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    README.write_text(before + BEGIN + "\n".join(parts) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
