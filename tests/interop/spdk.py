#!/usr/bin/env python3
"""SPDK for the interop tests: spdk.py FOLDER fetches a release of SPDK by git, builds it, and keeps in FOLDER the programs that the
tests run.
--source names another repository than SPDK's own: a clone that is here, with clones of its submodules beside it, named as they are.
--release names another release.

The build wants Debian's rdma-core, and apt-get install git libaio-dev libnuma-dev libssl-dev make meson python3-pyelftools uuid-dev. It
takes the DPDK that SPDK brings: SPDK refuses Debian's, which is corrected further.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

RELEASE = "v23.01"
REPOSITORY = "https://github.com/spdk/spdk"
# configure asks for the last two even where it then builds without them.
SUBMODULES = ("dpdk", "isa-l", "isa-l-crypto")
OPTIONS = ("--with-rdma", "--disable-tests", "--disable-unit-tests", "--without-vhost", "--without-virtio", "--without-vfio-user",
           "--without-uring", "--without-crypto", "--without-fuse", "--without-nvme-cuse")
PROGRAMS = {"nvmf_tgt": "build/bin", "perf": "build/examples", "identify": "build/examples"}  # and where SPDK builds each


def run(*words, cwd=None, seconds=3600):
    done = subprocess.run(words, cwd=cwd, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[-20:])
        raise RuntimeError(f"{' '.join(words)}:\n{said}")


def clone(tree, source, release):
    run("git", "clone", "-q", "--depth", "1", "-c", "advice.detachedHead=false", "--branch", release, source, str(tree), seconds=600)
    here = pathlib.Path(source)
    for name in SUBMODULES:
        if here.is_dir():
            run("git", "config", f"submodule.{name}.url", str(here.absolute().parent / name), cwd=tree)
        # git takes no submodule from this machine otherwise.
        allow = "protocol.file.allow=always"
        run("git", "-c", allow, "submodule", "update", "-q", "--init", name, cwd=tree, seconds=600)


def build(tree, jobs):
    run("./configure", *OPTIONS, cwd=tree)
    run("make", f"-j{jobs}", cwd=tree)


def complete(folder, release=None):
    """Whether it has everything, of this release."""
    try:
        built = (folder / "release").read_text().strip()
    except OSError:
        return False
    return release in (None, built) and all((folder / name).exists() for name in PROGRAMS)


def fetch(folder, source, release, jobs):
    """Into `folder`, which then is complete or as it was."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".spdk-") as name:
        tree, ready = pathlib.Path(name) / "tree", pathlib.Path(name) / "ready"
        clone(tree, source, release)
        build(tree, jobs)
        ready.mkdir()
        for program, place in PROGRAMS.items():
            shutil.copy2(tree / place / program, ready)
        (ready / "release").write_text(release + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--source", default=REPOSITORY)
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    folder = args.folder.resolve()
    if not complete(folder, args.release):
        try:
            fetch(folder, args.source, args.release, args.jobs)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            sys.exit(f"no SPDK for the interop tests: {error}")
    print(f"SPDK {args.release} in {folder}")


if __name__ == "__main__":
    main()
