#!/usr/bin/env python3
"""config/ci.md: its jobs, as they stand there, run in a bare Debian with the rights of a container: the RDMA test passes, and one
that leaves objects fails the job. And what containers of runners lack."""

import pathlib
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree

import harness
from bare_debian import BareDebian, PackagesCase, may_install, run

try:
    import yaml
except ImportError:
    yaml = None

PAGE, JOBS = harness.SOURCE / "config" / "ci.md", harness.SOURCE / "config" / "ci"
VERSION = re.search(r"^  version: '(.*)',$", (harness.SOURCE / "meson.build").read_text(), re.MULTILINE)[1]
# Docker leaves root these, and mknod (capabilities(7)).
CAPABILITIES = ("chown,dac_override,fsetid,fowner,net_raw,setgid,setuid,setfcap,setpcap,net_bind_service,sys_chroot,kill,"
                "audit_write").split(",")
ROOT = f"setpriv --bounding-set={','.join(['-all', *('+' + name for name in CAPABILITIES)])} --inh-caps=-all"
BARE_ROOT = "setpriv --bounding-set=-all --inh-caps=-all"
# Nobody in /etc/passwd.
USER = "setpriv --reuid=12345 --regid=12345 --clear-groups --bounding-set=-all --inh-caps=-all"
# As Docker does: /sys is read-only, /dev/shm small, and the filter of system calls follows.
CONTAINER = f"""
set -e
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sysfs "$0/sys"
mount -t tmpfs -o size=64m tmpfs "$0/dev/shm"
MORE
exec python3 {pathlib.Path(__file__).with_name("docker_seccomp.py")} chroot "$0" RIGHTS sh -e -c "$1"
"""
# A network with loopback alone. Runners of GitHub's machines have no IPv6.
WITHOUT_NETWORK = "ip link set lo up; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
PROJECT, UROCE = "project", "uroce"
# It finds no server, and ends without destroying anything.
LEAVES = "ibv_rc_pingpong -d uroce1 -g 0 localhost || true\n"
# In place of package.sh, which would compile for minutes.
BUILDS = '#!/bin/sh\nmkdir -p "$1" && cp /packages/*.deb "$1" && echo "== built"\n'


def blocks():
    return re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def job(name):
    return yaml.safe_load((JOBS / f"{name}.yml").read_text(encoding="utf-8"))


class Page(harness.Case):
    def test_it_shows_the_files(self):
        for name in ("github", "gitlab"):
            text = (JOBS / f"{name}.yml").read_text(encoding="utf-8")
            self.assertIn(f"(ci/{name}.yml)", PAGE.read_text(encoding="utf-8"))
            self.assertLess(text.count("\n"), 10)
            self.assertEqual(set(re.findall(r"\bv?(\d+\.\d+\.\d+)\b", text)), {VERSION})
        self.assertIn((JOBS / "github.yml").read_text(encoding="utf-8"), blocks())


class Jobs(PackagesCase):
    @staticmethod
    def why_not():
        return may_install() or (None if yaml else "python3-yaml is missing; config/packages.txt names it")

    def setUp(self):
        super().setUp()
        self.debian = BareDebian(self.directory)
        self.root = self.debian.root
        # Docker gives containers this one.
        (self.root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        self.project = self.root / PROJECT
        self.project.mkdir()
        self.write_test(next(block for block in blocks() if block.startswith("ibv_rc_pingpong")))

    def write_test(self, text):
        (self.project / "rdma-test.sh").write_text(text)

    def command(self, text, rights=ROOT, more="", network=False):
        self.debian.container = CONTAINER.replace("RIGHTS", rights).replace("MORE", more if network else f"{WITHOUT_NETWORK}\n{more}")
        words = self.debian.command(f"cd /{PROJECT}\n{text}")
        return words if network else ["unshare", "--net", *words]

    def install(self, text, **variables):
        """A step that comes before the test."""
        return run(*self.command(text, network=True), env={**self.debian.environment(), **variables})

    def result(self, text, rights=ROOT, more="", code=0):
        """Of the step that tests: its output, and the failures in its report."""
        report = self.project / "rdma.xml"
        report.unlink(missing_ok=True)
        # Runners give neither a terminal nor, at times, a home.
        done = subprocess.run(list(map(str, self.command(text, rights, more))), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120 * harness.SLOW, check=False,
                              env={"PATH": self.debian.environment()["PATH"]})
        self.assertEqual(done.returncode, code, done.stdout)
        failures = [case.get("name") for case in xml.etree.ElementTree.parse(report).getroot() if case.find("failure") is not None]
        return done.stdout, failures

    def passes(self, *args, **kw):
        said, failures = self.result(*args, **kw)
        self.assertEqual(len(re.findall(r"1000 iters in", said)), 2, said)
        self.assertIn("no program left objects or had trouble", said)
        self.assertEqual(failures, [])

    def source(self, folder):
        """Copies as much of the tree as the jobs use."""
        for name in ("config", "debian"):
            shutil.copytree(harness.SOURCE / name, folder / name)

    def run_action(self, name):
        """The action of the page's job: its own steps, and a cache that has the packages."""
        self.assertEqual(name, f"OWNER/uroce/config/ci@v{VERSION}")
        self.source(self.root / UROCE)
        variables = {"GITHUB_ACTION_PATH": f"/{UROCE}/config/ci", "GITHUB_OUTPUT": f"/{PROJECT}/output"}
        steps = job("action")["runs"]["steps"]
        for step in steps:
            if "run" in step:
                self.install(f"exec {step['shell']} -e -c {shlex.quote(step['run'])}", **variables)
            else:
                cached = self.root / step["with"]["path"].lstrip("/")
                self.assertIn("steps.system.outputs.name", step["with"]["key"])
                cached.mkdir()
                for deb in self.debs:
                    shutil.copy(deb, cached)
        self.assertRegex((self.project / "output").read_text(), r"^name=\w+-amd64\n$")

    def test_github(self):
        steps = job("github")["jobs"]["rdma"]["steps"]
        self.assertEqual(steps[0], {"uses": "actions/checkout@v4"})
        self.run_action(steps[1]["uses"])
        test = steps[2]["run"]
        self.passes(test)
        self.write_test(LEAVES)
        said, failures = self.result(test, code=1)
        self.assertIn("left 1 queue pair, 1 completion queue, 1 memory region, 1 protection domain", said)
        self.assertEqual(len(failures), 1, failures)
        self.assertIn("destroys what it makes", failures[0])
        self.result(test.replace("left,", ""))

    def test_gitlab(self):
        """Without a cache: the packages are made, and left where the next job finds them."""
        steps = job("gitlab")["rdma"]
        clone = self.directory / "clone"
        self.source(clone)
        (clone / "config" / "package.sh").write_text(BUILDS)
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "."], ["tag", f"v{VERSION}"]):
            run("git", "-C", clone, *identity, *words)
        shutil.copytree(clone, self.root / "origin")
        (self.root / "packages").mkdir()
        for deb in self.debs:
            shutil.copy(deb, self.root / "packages")
        said = self.install("\n".join(steps["before_script"]), GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="url./origin.insteadOf",
                            GIT_CONFIG_VALUE_0="https://HOST/OWNER/uroce")
        self.assertIn("== built", said)
        for folder in steps["cache"]["paths"]:
            self.assertEqual(len(list((self.project / folder).glob("uroce-verbs_*.deb"))), 1)
        self.passes(steps["script"])
        self.assertTrue((self.project / steps["artifacts"]["reports"]["junit"]).exists())
        self.assertNotIn("== built", self.install(steps["before_script"][1].partition("&& ")[2]))

    def test_what_containers_lack(self):
        self.run_action(job("github")["jobs"]["rdma"]["steps"][1]["uses"])
        test = job("github")["jobs"]["rdma"]["steps"][2]["run"]
        self.project.chmod(0o777)
        long = "/tmp/" + "a-long-name/" * 10
        for what, text, rights, more in (
                ("root without capabilities", test, BARE_ROOT, ""),
                ("a user without a name", test, USER, ""),
                ("a long TMPDIR", f"mkdir -p {long}; export TMPDIR={long}; {test}", USER, ""),
                ("little to lock and to open", test, f"prlimit --memlock=65536 --nofile=256 {USER}", ""),
                ("one CPU", test, f"taskset -c {harness.CPUS[0]} {USER}", ""),
                ("no /dev/shm", test, USER, 'umount "$0/dev/shm"; chmod 755 "$0/dev/shm"'),
                ("a read-only root", test, USER, 'mount --rbind "$0" "$0"; cd /; mount -o remount,ro,bind "$0"; mount -t tmpfs tmpfs "$0/tmp"; '
                 f'mount --bind "$0/{PROJECT}" "$0/{PROJECT}"; mount -o remount,rw,bind "$0/{PROJECT}"')):
            with self.subTest(what):
                self.passes(text, rights, more)

        said = self.finish(self.start(self.command("uroce-run --ci true", USER, 'umount "$0/sys"')), 60, 1)
        self.assertIn("mount /sys, where EAL finds the CPUs", said)


if __name__ == "__main__":
    harness.main()
