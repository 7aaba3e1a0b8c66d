#!/usr/bin/env python3
"""Compares the symbols that a drop-in library exports with those of the library it stands in for.

Usage: check_symbols.py LIBRARY LIST [INSTALLED] [--imports-of FILE ...] [--own NAME@@VERSION ...]

LIST holds "name@version" or "name@@version" (the default one) per line. When INSTALLED is there, it must have the same
symbols as LIST, so that the list cannot grow old unseen. Of each FILE that exists, every symbol that it imports from the
library's versions must be exported. Besides LIST, LIBRARY has exactly the symbols named by --own.
"""

import argparse
import glob
import os
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


def differences(what, wanted, found):
    for name in sorted(wanted - found):
        yield f"{what} lacks {name}"
    for name in sorted(found - wanted):
        yield f"{what} has {name} besides"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("list")
    parser.add_argument("installed", nargs="?")
    parser.add_argument("--imports-of", nargs="*", default=[])
    parser.add_argument("--own", nargs="*", default=[])
    options = parser.parse_args()

    with open(options.list) as lines:
        wanted = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    exported = symbols(options.library, "--defined-only")
    faults = list(differences(options.library, wanted | set(options.own), exported))
    if options.installed and os.path.exists(options.installed):
        faults += differences(options.installed, wanted, symbols(options.installed, "--defined-only"))
    expected_name = os.path.basename(options.library)
    if soname(options.library) != expected_name:
        faults.append(f"{options.library} calls itself {soname(options.library)}, not {expected_name}")

    versions = {name.rsplit("@", 1)[1] for name in wanted}
    offered = {name.replace("@@", "@") for name in exported}
    checked = 0
    for path in (path for pattern in options.imports_of for path in sorted(glob.glob(pattern))):
        imports = {name for name in symbols(path, "--undefined-only") if name.rsplit("@", 1)[1] in versions}
        faults += [f"{path} imports {name}, which is not exported" for name in sorted(imports - offered)]
        checked += 1

    for fault in faults:
        print(fault)
    print(f"{len(wanted)} symbols, {checked} importing files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
