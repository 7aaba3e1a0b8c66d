#!/usr/bin/env python3
"""Compares the symbols that a drop-in library exports with those of the library it stands in for.

Usage: check_symbols.py LIBRARY TABLE [INSTALLED] [--imports-of FILE ...] [--own NAME@@VERSION ...]

TABLE is a file of make_symbol_tables.py. LIBRARY must export all symbols of all its releases, and besides them exactly
those named by --own. When INSTALLED is there, one release of TABLE must have the same symbols, so that a wrong table
cannot stay unseen. Of each FILE that exists, every symbol that it imports from the library's versions must be exported.
"""

import argparse
import glob
import os
import re
import subprocess
import sys


def symbols(path, kind):
    """Of a shared object: name@version of what it defines, or of what it lacks."""
    out = subprocess.run(["nm", "-D", "--with-symbol-versions", kind, path], check=True, capture_output=True, text=True)
    names = [line.split()[-1] for line in out.stdout.splitlines()]
    return {name for name in names if "@" in name}


def soname(path):
    out = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    return next((line.split()[1] for line in out.splitlines() if line.strip().startswith("SONAME")), None)


class Table:
    """The symbols of each release as name@version."""

    def __init__(self, path):
        self.first, self.last, self.since = 0, 0, {}
        private, lines = [], []
        with open(path) as text:
            for line in text:
                words = line.split("#")[0].split()
                if words[:1] == ["releases"]:
                    self.first, self.last = map(int, words[1:])
                elif words[:1] == ["private"]:
                    private.append((words[1], int(words[2]), int(words[3])))
                elif words:
                    lines.append(words)
        for name, version, first, *last in lines:
            span = int(first), int(last[0]) if last else self.last
            versions = private if version == "IBVERBS_PRIVATE" else [(version, self.first, self.last)]
            for number, begin, end in versions:
                if max(begin, span[0]) <= min(end, span[1]):
                    symbol = f"{name.replace('_N', '_' + number.rsplit('_', 1)[1])}@{number}"
                    self.since[symbol] = max(begin, span[0]), min(end, span[1])

    def of(self, release):
        return {symbol for symbol, (first, last) in self.since.items() if first <= release <= last}


def plain(names):
    """The names without the sign of the default version, which matters to linkers alone."""
    return {name.replace("@@", "@") for name in names}


def wrong_defaults(exported):
    """A linker takes the default of a name: there must be one, and it must be the newest public version."""
    by_name = {}
    for symbol in exported:
        name, version = symbol.replace("@@", "@").split("@")
        if re.fullmatch(r"[A-Z]+_\d+\.\d+", version):
            numbers = [int(number) for number in version.rsplit("_", 1)[1].split(".")]
            by_name.setdefault(name, []).append((numbers, "@@" in symbol))
    for name, versions in sorted(by_name.items()):
        defaults = [numbers for numbers, default in versions if default]
        if name != "ibv_register_driver" and defaults != [max(numbers for numbers, _ in versions)]:
            yield f"the default version of {name} is not its newest"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("table")
    parser.add_argument("installed", nargs="?")
    parser.add_argument("--imports-of", nargs="*", default=[])
    parser.add_argument("--own", nargs="*", default=[])
    options = parser.parse_args()

    table = Table(options.table)
    wanted, exported = set(table.since), symbols(options.library, "--defined-only")
    offered = plain(exported)
    faults = [
        f"{options.library} lacks {name}, of rdma-core {table.since[name][0]} to {table.since[name][1]}"
        for name in sorted(wanted - offered)
    ]
    faults += [f"{options.library} has {name} besides" for name in sorted(offered - wanted - plain(options.own))]
    faults += wrong_defaults(exported)
    if options.installed and os.path.exists(options.installed):
        there = plain(symbols(options.installed, "--defined-only"))
        if not any(table.of(release) == there for release in range(table.first, table.last + 1)):
            faults.append(f"{options.installed} has the symbols of no release of {options.table}, which ends with "
                          f"rdma-core {table.last}; make_symbol_tables.py writes a newer one")
            faults += [f"{options.installed} has {name}" for name in sorted(there - wanted)]
    expected_name = os.path.basename(options.library)
    if soname(options.library) != expected_name:
        faults.append(f"{options.library} calls itself {soname(options.library)}, not {expected_name}")

    versions = {name.rsplit("@", 1)[1] for name in wanted}
    checked = 0
    for path in (path for pattern in options.imports_of for path in sorted(glob.glob(pattern))):
        imports = {name for name in symbols(path, "--undefined-only") if name.rsplit("@", 1)[1] in versions}
        faults += [f"{path} imports {name}, which is not exported" for name in sorted(imports - offered)]
        checked += 1

    for fault in faults:
        print(fault)
    releases = f"rdma-core {table.first} to {table.last}"
    print(f"{len(wanted)} symbols of {releases}, {checked} importing files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
