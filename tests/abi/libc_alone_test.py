#!/usr/bin/env python3
"""Files that programs of any distribution load, or start, need libc alone, and no symbol newer than a given glibc.

Usage: libc_alone_test.py LIMIT FILE...

LIMIT is a version of glibc, such as 2.28. A FILE may need another FILE besides. None shows symbols of the C++ library that
it has inside: a program's own would be taken for it, or the other way round.
"""

import collections
import os
import re
import subprocess
import sys

# glibc's package has all of these.
PARTS_OF_LIBC = r"(lib(c|m)\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux[-\w]*\.so\.\d)"
# Up to glibc 2.33 libc.so.6 does not have these functions.
HOMES = {
    "libpthread.so.0": r"(pthread_|sem_)",
    "libdl.so.2": r"dl(open|close|sym|vsym|addr|error|info|mopen)$",
    "librt.so.1": r"(shm_|timer_|aio_|mq_|lio_listio)",
}
OF_CXX = r"(_ZN?K?St|_ZTV?I?NSt|_Zn[wa]|_Zd[la]|__cxa_|__gxx_|_Unwind_|_ZN10__cxxabiv1|_ZN9__gnu_cxx|_ZN3fmt)"
WAY_OUT = {
    "newer": "link to libc_limit (lib/compat/meson.build), and add a substitute to lib/compat/later_functions.cc; or make the "
    "reference weak and look whether it is there",
    "library": "link the library's code in, as fmt_inside and -static-libstdc++ do, or do without it",
    "shown": "hide it by the version script, or by --exclude-libs",
    "home": "link with libc_alone_args (lib/compat/meson.build)",
    "unversioned": "nothing that it needs has the symbol in every program; link its code in",
}

Symbol = collections.namedtuple("Symbol", "name version bind defined")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols_of(path):
    for line in run("readelf", "--dyn-syms", "--wide", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].endswith(":") and fields[0] != "Num:":
            name, _, version = fields[7].partition("@")
            yield Symbol(name, version.lstrip("@"), fields[4], fields[6] != "UND")


def is_up_to(limit, version):
    match = re.fullmatch(r"GLIBC_([\d.]+)", version)
    return match is not None and tuple(map(int, match[1].split("."))) <= tuple(map(int, limit.split(".")))


def faults_of(path, limit, own):
    """Pairs: a text and the way out."""
    dynamic = run("readelf", "--dynamic", "--wide", path)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    for library in needed:
        if library not in own and not re.fullmatch(PARTS_OF_LIBC, library):
            yield f"needs {library}, which not every system has", "library"
    imports = []
    for symbol in symbols_of(path):
        if symbol.defined and re.match(OF_CXX, symbol.name):
            yield f"shows {symbol.name} of its C++ library", "shown"
        elif not symbol.defined and symbol.version:
            imports.append(symbol.name)
        elif not symbol.defined and symbol.bind != "WEAK" and symbol.name:
            yield f"lacks {symbol.name}", "unversioned"
    for home, names in HOMES.items():
        here = sorted(name for name in imports if re.match(names, name))
        if here and home not in needed:
            yield f"calls {here[0]}, which {home} has up to glibc 2.33, and does not need {home}", "home"
    # Also the versions without a symbol, such as GLIBC_ABI_DT_RELR.
    for library, names in references(path):
        for version in names:
            if not re.fullmatch(PARTS_OF_LIBC, library) or is_up_to(limit, version):
                continue
            users = [symbol.name for symbol in symbols_of(path) if symbol.version == version] or ["no symbol"]
            yield f"needs {version} of {library} for {', '.join(users)}; the limit is GLIBC_{limit}", "newer"


def references(path):
    """Pairs: a library, and the versions of it that the loader looks for."""
    library, versions, found = None, [], []
    for line in run("readelf", "--version-info", "--wide", path).splitlines():
        if match := re.search(r"File: (\S+)\s+Cnt:", line):
            library, versions = match[1], []
            found.append((library, versions))
        elif library and (match := re.search(r"Name: (\S+)\s+Flags: (\S+)", line)):
            versions.append(match[1])
    return found


def main():
    limit, files = sys.argv[1], sys.argv[2:]
    own = {os.path.basename(path) for path in files}
    count = 0
    for path in files:
        for fault, way_out in faults_of(path, limit, own):
            print(f"{path} {fault}. Way out: {WAY_OUT[way_out]}.")
            count += 1
    print(f"{len(files)} files, {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
