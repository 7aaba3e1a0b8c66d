#!/usr/bin/env python3
"""Makes stand-ins for this machine's libc that have only what an older one has, too. They serve the linker alone.

Usage: limit_libc.py LIMIT FOLDER COMPILER...

LIMIT is a version such as 2.28. FOLDER gets libc.so, libm.so, libold_pthread.so, libold_dl.so and the loader's stand-in. A
library linked with -L FOLDER binds to the newest version of each symbol up to LIMIT: pthread_create@GLIBC_2.2.5 instead
of pthread_create@GLIBC_2.34. A function that LIMIT does not have is an undefined reference when the library is linked;
later_functions.cc has substitutes. The names of the loaded libraries (DT_NEEDED) stay libc.so.6 and so on.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

# Each is a shared library of its own up to glibc 2.33. Later ones have empty libraries of that name.
PARTS = {"libm.so": "libm.so.6", "libold_pthread.so": "libpthread.so.0", "libold_dl.so": "libdl.so.2"}

Symbol = collections.namedtuple("Symbol", "name version address size type bind")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def number(version):
    """GLIBC_2.2.5 as (2, 2, 5). None for GLIBC_PRIVATE, GLIBC_ABI_DT_RELR and the like."""
    match = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else None


def symbols_up_to(limit, library):
    """The newest version of each symbol that is not newer than the limit."""
    best = {}
    for line in run("readelf", "--dyn-syms", "--wide", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or fields[6] in ("UND", "ABS", "Ndx"):
            continue
        name, _, version = fields[7].partition("@")
        symbol = Symbol(name, version.lstrip("@"), int(fields[1], 16), int(fields[2], 0), fields[3], fields[4])
        found = number(symbol.version)
        if found is None or found > limit:
            continue
        if name not in best or number(best[name].version) < found:
            best[name] = symbol
    return sorted(best.values())


def assembly(symbols):
    """Defines the symbols. Those of one address stay together: a program's copy of `environ` is one of `__environ`."""
    places = collections.defaultdict(list)
    for symbol in symbols:
        places[symbol.type == "TLS", symbol.address].append(symbol)
    lines, count = [], 0
    for (local_to_threads, _), here in places.items():
        kind = "tls_object" if local_to_threads else "object" if here[0].type == "OBJECT" else "function"
        section = {"tls_object": '.section .tbss,"awT",%nobits', "object": ".bss", "function": ".text"}[kind]
        lines += [section, ".balign 32"]
        for symbol in here:
            label = f"stand_in_{count}"
            count += 1
            lines += [
                f".{'weak' if symbol.bind == 'WEAK' else 'globl'} {label}",
                f".type {label}, %{kind}",
                f".size {label}, {symbol.size}",
                f".symver {label}, {symbol.name}@@{symbol.version}, remove",
                f"{label}:",
            ]
        lines.append(f".skip {max(1, *(symbol.size for symbol in here), 0)}")
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",%progbits\n'


def make(compiler, out, soname, symbols):
    source, script = out.with_name(out.name + ".s"), out.with_name(out.name + ".map")
    source.write_text(assembly(symbols))
    versions = sorted({symbol.version for symbol in symbols}, key=number)
    script.write_text("".join(f"{version} {{}};\n" for version in versions) or "{ local: *; };\n")
    run(*compiler, "-shared", "-nostdlib", "-o", out, source, f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}")


def main():
    limit, folder = tuple(map(int, sys.argv[1].split("."))), pathlib.Path(sys.argv[2]).absolute()
    # Flags of the whole build, such as sanitizers, have no place in a library without code.
    compiler = [word for word in sys.argv[3:] if not word.startswith("-") or word.startswith(("--target", "--sysroot", "-m"))]

    def real(name):
        return os.path.realpath(run(*compiler, f"-print-file-name={name}").strip())

    needed = re.findall(r"\[(ld[-\w.]+)\]", run("readelf", "--dynamic", "--wide", real("libc.so.6")))
    loader = needed[0]
    for name, soname in PARTS.items():
        make(compiler, folder / name, soname, symbols_up_to(limit, real(soname)))
    make(compiler, folder / "ld.so", loader, symbols_up_to(limit, real(loader)))
    make(compiler, folder / "libc.so.6", "libc.so.6", symbols_up_to(limit, real("libc.so.6")))
    # libc_nonshared.a has atexit() and the like, which call the shared library.
    (folder / "libc.so").write_text(
        f"GROUP ( {folder}/libc.so.6 {real('libc_nonshared.a')} AS_NEEDED ( {folder}/ld.so ) )\n"
    )


main()
