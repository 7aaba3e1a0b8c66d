#!/usr/bin/env python3
"""Writes the tables of symbols that check_symbols.py reads, from a clone of rdma-core with all its tags.

Usage: make_symbol_tables.py CLONE

CLONE is https://github.com/linux-rdma/rdma-core, bare or not. Only a newer release of rdma-core makes this necessary.
The newest commit counts as the release that its CMakeLists.txt names.
"""

import os
import re
import subprocess
import sys

OLDEST = 22  # of Debian 10
# Names that no function has from that release on, although maps go on to have them. All but the last are inline functions.
UNDEFINED_FROM = {
    "ibv_query_device_ex": 0,
    "rdma_get_local_addr": 0,
    "rdma_get_peer_addr": 0,
    "ibv_cmd_query_device": 33,
}
HERE = os.path.dirname(os.path.abspath(__file__))
MAPS = {"libibverbs": "libibverbs/libibverbs.map.in", "librdmacm": "librdmacm/librdmacm.map"}


def text_of(clone, commit, path):
    return subprocess.run(
        ["git", "-C", clone, "show", f"{commit}:{path}"], check=True, capture_output=True, text=True
    ).stdout


def commits(clone):
    """The releases with their commits, oldest first."""
    tags = subprocess.run(["git", "-C", clone, "tag"], check=True, capture_output=True, text=True).stdout.split()
    found = {int(m[1]): m[0] for m in (re.fullmatch(r"v(\d+)(\.0)?", tag) for tag in tags) if m}
    newest = re.search(r'set\(PACKAGE_VERSION "(\d+)', text_of(clone, "HEAD", "CMakeLists.txt"))[1]
    found.setdefault(int(newest), "HEAD")
    return sorted((release, commit) for release, commit in found.items() if release >= OLDEST)


def private_version(clone, commit):
    return int(re.search(r'set\(IBVERBS_PABI_VERSION "(\d+)"\)', text_of(clone, commit, "CMakeLists.txt"))[1])


def symbols(map_text):
    """Of a version script: name and version of each exported symbol, the private version without its number."""
    map_text = re.sub(r"/\*.*?\*/", "", map_text, flags=re.DOTALL)
    for version, body in re.findall(r"(\w[\w.@]*)\s*\{(.*?)\}", map_text, flags=re.DOTALL):
        names = re.split(r"\blocal:", body)[0].replace("global:", "")
        for name in set(re.findall(r"[^\s;]+", names)):
            yield name.replace("@IBVERBS_PABI_VERSION@", "N"), version.replace("_@IBVERBS_PABI_VERSION@", "")


def spans(releases_of):
    """Each key with its first and its last release."""
    for key, releases in sorted(releases_of.items()):
        assert releases == list(range(releases[0], releases[-1] + 1)), f"{key} has gone and come again: {releases}"
        yield key, releases[0], releases[-1]


def main():
    clone = sys.argv[1]
    known = commits(clone)
    newest = known[-1][0]
    missing = set(range(OLDEST, newest)) - {release for release, _ in known}
    assert not missing, f"no tag for releases {sorted(missing)}"
    for library, path in MAPS.items():
        found, private = {}, {}
        for release, commit in known:
            for key in symbols(text_of(clone, commit, path)):
                if release < UNDEFINED_FROM.get(key[0], release + 1):
                    found.setdefault(key, []).append(release)
            if library == "libibverbs":
                private.setdefault(private_version(clone, commit), []).append(release)
        with open(os.path.join(HERE, library + ".symbols"), "w") as out:
            out.write(f"# Symbols that the releases of rdma-core export in {library}, by make_symbol_tables.py: symbol, version,\n")
            out.write("# first release, and last release where later ones lack it.\n")
            if private:
                out.write("# The version IBVERBS_PRIVATE has a number, N, which depends on the release as the first lines say.\n")
            out.write(f"releases {OLDEST} {newest}\n")
            for number, first, last in spans(private):
                out.write(f"private IBVERBS_PRIVATE_{number} {first} {last}\n")
            for (name, version), first, last in spans(found):
                out.write(f"{name} {version} {first}" + (f" {last}\n" if last != newest else "\n"))


if __name__ == "__main__":
    main()
