#!/usr/bin/env python3
"""Puts what a whole run of test_rxe.py found into the table of README.md: table.py BUILD/interop-results.json"""

import collections
import json
import pathlib
import sys

README = pathlib.Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
NAMES = {1 << 20: "1 MiB"}


def matrix(rows):
    """A line per operation: the lengths that arrived, by path MTU and requester."""
    found = collections.defaultdict(list)
    columns = []
    operations = []
    for op, mtu, requester, _, length in rows:
        columns += [(mtu, requester)] * ((mtu, requester) not in columns)
        operations += [op] * (op not in operations)
        found[op, mtu, requester].append(NAMES.get(length, str(length)))
    columns.sort()
    yield "| operation | " + " | ".join(f"{requester} asks, MTU {mtu}" for mtu, requester in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for op in operations:
        yield f"| {op} | " + " | ".join(", ".join(found[op, *column]) or "—" for column in columns) + " |"


def errors(rows):
    """A line per error: what the requester and the receive of the responder are told, for each responder."""
    yield "| error | request | uroce answers | rxe answers |"
    yield "|---|---|---|---|"
    told = collections.defaultdict(dict)
    for name, op, responder, sent, received, _ in rows:
        told[name, op][responder] = sent + (f"; receive: {received}" if received else "")
    for (name, op), answers in told.items():
        yield f"| {name.replace('_', ' ')} | {op} | {answers.get('uroce', '—')} | {answers.get('rxe', 'rxe does not send it')} |"


def programs(rows):
    yield "| program | server uroce, client rxe | server rxe, client uroce |"
    yield "|---|---|---|"
    ran = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, family, server, _ in rows:
        ran[name][server].append(f"IPv{family}")
    for name in sorted(ran):
        yield f"| `{name}` | " + " | ".join(", ".join(sorted(set(ran[name][s]))) or "—" for s in ("uroce", "rxe")) + " |"


def faults(rows):
    yield "| frames | requester | lost | repeated | reordered |"
    yield "|---|---|---|---|---|"
    for fault, requester, done, _ in rows:
        yield f"| {fault} | {requester} | {done['lose']} | {done['repeat']} | {done['delay']} |"


def main():
    by_table = collections.defaultdict(list)
    for table, *values in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        by_table[table].append(values)
    parts = [f"### {title}\n\n" + "\n".join(make(by_table[name])) + "\n"
             for title, make, name in (("Operations: lengths in bytes", matrix, "matrix"), ("Errors", errors, "errors"),
                                       ("Faults, and how many there were", faults, "faults"),
                                       ("Programs", programs, "programs"))]
    text = README.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    README.write_text(before + BEGIN + "\n".join(parts) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
