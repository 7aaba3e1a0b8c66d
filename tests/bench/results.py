"""Figures of the benchmarks as data: tests/bench/results/SUBJECT.json. A command with --save writes them, and
tests/bench/report makes the documents of them.

A file has `cells` and `runs`. A cell is one figure, of a row and a column: the median, the least and the most of the rounds, as far as
they are known, and the goal (["least", 0.9] or ["most", 1.5]). It names its run: the date, the machine, the command. A later
measurement replaces the cells that it measured, and the others keep theirs."""

import datetime
import json
import os
import pathlib
import re
import statistics
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "tests" / "bench" / "results"
sys.path.insert(0, str(SOURCE / "config"))
import pair  # noqa: E402


def add_option(parser):
    parser.add_argument("--save", action="store_true", help="keep the figures in tests/bench/results, for tests/bench/report")


def cell(row, column, values, goal=None):
    """The cell of one figure, or of one for each round."""
    values = values if isinstance(values, (list, tuple)) else [values]
    found = {"row": row, "column": column, "median": statistics.median(values)}
    if len(values) > 1:
        found |= {"least": min(values), "most": max(values)}
    return found | ({"goal": list(goal)} if goal else {})


def machine(counted=False):
    """`counted`: the figures are counts, which other programs do not change."""
    release = ".".join(os.uname().release.split(".")[:2])
    disturbed = "" if counted else pair.machine().removeprefix(pair.cpu_model())
    return f"{pair.cpu_model()}, {os.cpu_count()} cores, Linux {release}{disturbed}"


def this_run(counted=False):
    """Date, machine and command, without the options that change no figure, and without the place of another build."""
    command = " ".join([os.path.relpath(sys.argv[0], SOURCE), *sys.argv[1:]])
    command = re.sub(r" --save\b| --(?:build|json)[ =]\S+", "", command)
    command = re.sub(r" --(before|other)[ =]\S+", r" --\1 BUILD", command)
    return {"date": datetime.date.today().isoformat(), "machine": machine(counted), "command": command}


def merged(kept, cells, run):
    """The data with these cells in place of those of the same row and column."""
    number = str(max(map(int, kept["runs"]), default=0) + 1)
    named = {(c["row"], c["column"]): {**c, "run": number} for c in cells}
    all_cells = [named.pop((c["row"], c["column"]), c) for c in kept["cells"]] + list(named.values())
    used = {c["run"] for c in all_cells}
    return {"runs": {n: r for n, r in {**kept["runs"], number: run}.items() if n in used}, "cells": all_cells}


def text_of(data):
    """One run and one cell a line, so that a change shows where it is."""
    runs = ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in data["runs"].items())
    cells = ",\n".join(f"  {json.dumps(c)}" for c in data["cells"])
    return f'{{"runs": {{\n{runs}\n }},\n "cells": [\n{cells}\n ]}}\n'


def load(subject):
    file = FOLDER / f"{subject}.json"
    return json.loads(file.read_text()) if file.exists() else {"runs": {}, "cells": []}


def write(subject, cells, run):
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{subject}.json"
    file.write_text(text_of(merged(load(subject), cells, run)))
    print(f"saved to {file}; tests/bench/report writes the documents")


def save(options, subject, cells, counted=False):
    """Where the command was given --save. `counted`: as for machine()."""
    if options.save:
        write(subject, cells, this_run(counted))


def missed(figure):
    """True if the cell has a goal and does not reach it. Without a median, its better end counts."""
    if "goal" not in figure:
        return False
    bound, value = figure["goal"]
    if bound == "least":
        return figure.get("median", figure.get("most")) < value
    return figure.get("median", figure.get("least")) > value
