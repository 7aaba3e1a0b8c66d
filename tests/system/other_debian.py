"""A root of another Debian with its own RDMA programs, made once for each build folder. Programs run there with the build folder,
the sources and /tmp where they are outside."""

import os
import pathlib
import shutil
import tempfile
import unittest

import harness
from bare_debian import PATH, alone, run

PACKAGES = ("bash", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "iproute2", "libfabric-bin", "perftest", "perl", "python3",
            "python3-pyverbs", "rdmacm-utils", "ucx-utils")
SHARED = (harness.BUILD, harness.SOURCE, pathlib.Path(tempfile.gettempdir()))
# $0 is the root, $1 how many words name a folder to share. The rest is the program and its arguments.
ENTER = """
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
for shared in $(seq "$1"); do
  shift
  mkdir -p "$0$1"
  mount --rbind "$1" "$0$1"
done
shift
exec chroot "$0" env -C "$PWD" "$@"
"""


def may_enter():
    """None, or why this machine cannot make or enter the root of another Debian."""
    if os.geteuid() != 0:
        return "only root makes the root of another Debian"
    missing = [name for name in ("mmdebstrap", "unshare", "chroot") if not shutil.which(name)]
    return f"{', '.join(missing)} missing; config/packages.txt names what it needs" if missing else None


class OtherDebian:
    def __init__(self, release):
        self.release = release
        self.root = harness.BUILD / "distributions" / release
        self.root.parent.mkdir(exist_ok=True)
        with alone(f"distributions/{release}"):
            if not self.root.exists():
                self.make()

    def make(self):
        made = self.root.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        # Not every release has all of them. They are not set up, which takes longer than to unpack them, because no service runs.
        wanted = ", ".join(f"?exact-name({name})" for name in PACKAGES)
        try:
            # A mirror may be weeks behind.
            run("mmdebstrap", "--quiet", "--variant=extract", f"--include=?or(?essential, {wanted})",
                '--aptopt=Acquire::Check-Valid-Until "false"', self.release, made)
        except AssertionError as e:
            raise unittest.SkipTest(f"this machine gets no Debian {self.release} from the archive: {e}") from None
        for name in ("passwd", "group"):
            shutil.copy(made / "usr" / "share" / "base-passwd" / f"{name}.master", made / "etc" / name)
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", made / "etc" / name)
        run("chroot", made, "ldconfig", env={"PATH": PATH})
        made.rename(self.root)

    def words(self, *command):
        """Those that start a program in the root. It is the process that they start, not a child of it."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, self.root, len(SHARED), *SHARED,
                f"PATH={PATH}", "LC_ALL=C.UTF-8", *command]

    def has(self, program):
        return any(pathlib.Path(f"{self.root}/{folder}/{program}").exists() for folder in ("", *PATH.split(":")))
