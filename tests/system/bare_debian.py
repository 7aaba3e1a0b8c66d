"""A bare Debian in a folder: the smallest set of packages of this machine's release, into which a test installs ours. And our
packages, made once."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import unittest

import harness

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# A container: processes and mounts of its own, /run of its own, and what Debian's init would mount.
CONTAINER = """
set -e
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount -t sysfs sysfs "$0/sys"
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs tmpfs "$0/dev/shm"
exec chroot "$0" sh -e -c "$1"
"""


def run(*command, **kw):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600 * harness.SLOW, check=False, **kw)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


@contextlib.contextmanager
def alone(name):
    """One suite at a time makes what several share in the build folder. A suite that ends lets the others go on."""
    with (harness.BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_packages(folder):
    """As config/package.sh makes them, but for the time that their compression takes."""
    run(harness.SOURCE / "config" / "package.sh", "--from", harness.BUILD, folder,
        env={**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "0"})


def packages(into):
    """Copies of this build's packages, in a folder. Suites share them; they are made anew when anything in them has changed."""
    folder = harness.BUILD / "packages"
    stamp = folder / "made-from"
    with alone("packages"):
        wanted = packaged_state()
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            build_packages(folder)
            stamp.write_text(wanted)
        return sorted(pathlib.Path(shutil.copy(deb, into)) for deb in folder.glob("*.deb"))


def packaged_state():
    """Differs when a source or an installed file of the build folder does."""
    installed = json.loads((harness.BUILD / "meson-info" / "intro-installed.json").read_text())
    found = [pathlib.Path(path) for path in installed]
    for folder, folders, names in os.walk(harness.SOURCE):
        # The same that package.sh leaves out.
        folders[:] = [name for name in folders if not name.startswith("build") and name not in (".git", ".cache", "__pycache__")]
        found += [pathlib.Path(folder, name) for name in names]
    facts = sorted((str(path), (status := path.stat()).st_mtime_ns, status.st_size) for path in found if path.exists())
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def release():
    """The code name that this machine's packages fit. Debian's testing calls itself "forky/sid", as unstable does."""
    if pathlib.Path("/etc/debian_version").read_text().endswith("/sid\n"):
        return "sid"
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def may_install():
    """None, or why this machine cannot make a bare Debian."""
    if os.geteuid() != 0:
        return "only root makes a bare Debian and namespaces"
    missing = [name for name in ("mmdebstrap", "lintian", "dpkg-buildpackage", "dh", "unshare") if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} missing; config/packages.txt names what it needs"
    return None if harness.may_make_namespaces() else "this machine makes no network namespaces"


class PackagesCase(harness.Case):
    """A case that installs the packages, the files `debs`. It is skipped where why_not() has a text."""
    why_not = staticmethod(may_install)

    @classmethod
    def setUpClass(cls):
        cls.missing = cls.why_not()
        if cls.missing:
            return
        folder = tempfile.mkdtemp(prefix="uroce-test-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.debs = packages(folder)

    def setUp(self):
        if self.missing:
            self.skipTest(self.missing)
        super().setUp()


class BareDebian:
    """A root folder with Debian's smallest set of packages, and no others."""

    container = CONTAINER

    def __init__(self, folder):
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        run("tar", "-x", "-f", self.made(), "-C", self.root)

    @staticmethod
    def made():
        """The archive of such a root, once for each build folder."""
        tar = harness.BUILD / "bare-debian.tar"
        with alone("bare-debian"):
            if not tar.exists():
                made = tar.with_suffix(".new.tar")
                try:
                    # The lists of packages stay, for apt-get install.
                    run("mmdebstrap", "--quiet", "--variant=minbase", "--skip=cleanup/apt/lists", "--dpkgopt=force-unsafe-io",
                        release(), made)
                except AssertionError as e:
                    raise unittest.SkipTest(f"this machine gets no bare Debian from the archive: {e}") from None
                made.rename(tar)
        return tar

    @staticmethod
    def environment():
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        return {**proxies, "PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}

    def command(self, text):
        """The words that run a shell's text in the root."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", self.container, self.root, text]

    def run(self, *command):
        return run(*self.command(" ".join(f"'{word}'" for word in command)), env=self.environment())

    def apt(self, *words):
        return self.run("apt-get", "-y", "-q", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
                        "-o", "Dpkg::Options::=--force-unsafe-io", *words)

    def add(self, packages):
        """Copies packages into the root; their paths inside it."""
        folder = self.root / "tmp" / "packages"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return ["/tmp/packages/" + pathlib.Path(shutil.copy(package, folder)).name for package in packages]

    def versions(self):
        lines = self.run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n", "*uroce*").splitlines()
        rows = (line.split(" ") for line in lines)
        return {name: (version, status) for name, version, status in rows if status != "not-installed"}  # others suggest those

    def files(self):
        """All paths with our name, outside those that the system writes as it goes."""
        found = (p.relative_to(self.root).as_posix() for p in self.root.rglob("*uroce*"))
        return sorted(p for p in found if not p.startswith(("proc/", "sys/", "tmp/", "var/cache/apt/")))
