#!/usr/bin/env python3
"""Checks that each folder includes only what stands before it, and that lib/ stays free of DPDK.

Usage: check_layering.py SOURCE_ROOT
"""

import pathlib
import re
import sys

# What a folder may include besides itself. Public headers are open to all.
BELOW = {
    "base": [],
    "wire": ["base"],
    "memory": ["base", "wire"],
    "queues": ["base", "wire", "memory"],
    "transport": ["base", "wire", "memory", "queues"],
    "control": ["base", "wire", "memory", "queues", "transport"],
    "cm": ["base", "wire", "memory", "queues", "transport", "control", "message"],
    "message": ["base", "queues"],
    "service": ["base", "wire", "memory", "queues", "transport", "control", "cm", "message"],
    "client": ["base", "wire", "memory", "queues", "transport", "control", "message"],
}
BELOW["pmd_glue"] = list(BELOW)
BELOW["apps"] = list(BELOW)
# The drop-in libraries are applications of the client: they know no engine and no driver.
BELOW["dropin"] = ["base", "message", "client"]

# The replayable core takes time, randomness and frames as arguments.
PURE = ("base", "wire", "memory", "queues", "transport")
IMPURE = re.compile(r"steady_clock::now|system_clock|clock_gettime|random_device|<sys/socket\.h>|<x86intrin\.h>|__rdtsc")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    """The layer that a file belongs to, by its path from the root."""
    if path.parts[0] == "lib":
        return path.parts[1] if len(path.parts) > 2 else None
    return "public" if path.parts[0] == "include" else path.parts[0]


def faults(root, path):
    layer = folder_of(path)
    if layer is None:
        yield 0, "a source file directly in lib/ belongs to no layer; move it into a folder"
        return
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        if layer in PURE and IMPURE.search(line):
            yield number, f"'{line.strip()}' in lib/{layer}: take it as an argument instead"
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(2)
        if re.match(r"rte_|dpdk/", header) and layer not in ("pmd_glue", "apps"):
            yield number, f"<{header}> outside pmd_glue: the layers below do not know DPDK"
        target = header.split("/")[0]
        if layer == "public":
            if match.group(1) == '"':
                yield number, f'"{header}": a public header includes only <uroce/...> and the standard library'
        elif target in BELOW and "/" in header and target != layer and target not in BELOW.get(layer, []):
            yield number, f'{layer} includes "{header}", but {target} does not stand below it'


def main():
    root = pathlib.Path(sys.argv[1])
    files = [p for top in ("include", "lib", "pmd_glue", "apps") for p in sorted((root / top).rglob("*")) if p.suffix in (".h", ".cc")]
    if not files:
        sys.exit(f"error: no sources under {root}; give the source root.")
    bad = 0
    for path in files:
        for number, text in faults(root, path.relative_to(root)):
            print(f"{path.relative_to(root)}:{number}: {text}")
            bad += 1
    print(f"{len(files)} files, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
