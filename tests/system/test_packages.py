#!/usr/bin/env python3
"""The Debian packages: what lintian says, two builds of them, and their life on a bare Debian."""

import hashlib
import os
import re
import shutil
import signal
import threading
import time

import harness
from bare_debian import CONTAINER, PATH, BareDebian, PackagesCase, build_packages, run
from service_manager import ServiceManager

NAMES = ("liburoce-dev", "liburoce0", "uroce", "uroce-doc", "uroce-nvmf", "uroce-perf", "uroce-verbs")
# The release that the upgrade begins from.
RELEASED = "0.1.0"
PERFTEST_PORT = 18515
SETTINGS = "etc/uroce/uroced.toml"
UROCED = "usr/bin/uroced"
# The interface of harness.Namespaces that has an address of the kernel's.
ADMINS_LINES = '\n# The administrator was here.\n[[device]]\ninterface = "c0"\n'

# As an administrator, and then as a user without rights.
SERVE = """
uroced --config /etc/uroce/uroced.toml &
for i in $(seq 300); do uroce devices 2>/dev/null | grep -q " up " && break; sleep 0.1; done
uroce devices
echo "daemon: $(stat -c %U /proc/$!)"
code=0
runuser -u games -- timeout 300 uroce-run ib_write_bw -d uroce0 -x 0 -m 1024 LENGTH -p PORT -F PEER || code=$?
kill $!
wait $!
echo "daemon ended with $?"
exit $code
"""


# The same, with a /run that outlives it and that others see.
LASTING = CONTAINER.replace('-t tmpfs tmpfs "$0/run"', '--bind "$0/srv" "$0/run"')
# Stands in for systemd's, as far as the packages' scripts need it. The test restarts the service.
SYSTEMCTL = """#!/bin/sh
case "$*" in
  *is-enabled*) echo enabled ;;
  *restart*uroced.service*) touch /run/restart && while [ -e /run/restart ]; do sleep 0.02; done ;;
esac
"""


class Service(threading.Thread):
    """The daemon of a root as a service, which this restarts when `systemctl` in the root asks for it."""

    def __init__(self, case, debian, namespace):
        super().__init__()
        folder = debian.root / "srv"
        (folder / "systemd" / "system").mkdir(parents=True)
        self.command = ["unshare", "--mount", "sh", "-c", LASTING, debian.root, "exec uroced --config /etc/uroce/uroced.toml"]
        self.manager, self.namespace = ServiceManager(case, folder=folder, seen_as="/run"), namespace
        self.wanted, self.over, self.failure = folder / "restart", threading.Event(), None
        self.daemons = []
        self.begin()
        self.start()

    def begin(self):
        self.daemons.append(self.manager.start(self.command, self.namespace))
        self.manager.wait_for("READY", 60)

    def end(self):
        self.daemons[-1].process.send_signal(signal.SIGTERM)
        return self.daemons[-1].wait(60)

    def run(self):
        while not self.over.is_set():
            if not self.wanted.exists():
                time.sleep(0.02)
                continue
            try:
                self.end()
                self.begin()
            except AssertionError as e:
                self.failure = e
            self.wanted.unlink()


class Packages(PackagesCase):
    # Of the traffic, which apt takes a few of.
    SECONDS = 40

    def base(self):
        """The number of the version before. A tree that is not past RELEASED yet begins from what Debian sorts just before it."""
        version = run("dpkg-deb", "-f", self.debs[0], "Version").strip()
        return f"{RELEASED}~before" if version == RELEASED else RELEASED

    def older(self):
        """The packages as if of a version before, with other defaults in the settings."""
        found = []
        for deb in self.debs:
            tree = self.directory / deb.stem
            run("dpkg-deb", "-R", deb, tree)
            version = run("dpkg-deb", "-f", deb, "Version").strip()
            control = tree / "DEBIAN" / "control"
            # Its own version, and those of the packages that it depends on or breaks.
            control.write_text(re.sub(rf"(?<=[ (]){re.escape(version)}(?=\)|$)", self.base(), control.read_text(), flags=re.MULTILINE))
            if (tree / SETTINGS).exists():
                (tree / SETTINGS).write_text((tree / SETTINGS).read_text() + "# The version before had this line.\n")
            if (tree / UROCED).exists():
                program, said = (tree / UROCED).read_bytes(), f"\0{version}\0".encode()
                self.assertEqual(program.count(said), 1)
                (tree / UROCED).write_bytes(program.replace(said, re.sub(rb"\d", b"0", said)))
            found.append(self.directory / f"{deb.name.split('_')[0]}_{self.base()}.deb")
            run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, found[-1])
        return found

    def test_there_are_all_packages(self):
        self.assertEqual(sorted(deb.name.split("_")[0] for deb in self.debs), sorted(NAMES))

    def test_package_sh_installs_what_the_build_needs(self):
        """debian/control and config/packages.txt name the same packages."""
        control = (harness.SOURCE / "debian" / "control").read_text().split("\n\n", 1)[0]
        needed = set(re.findall(r"^ ([a-z0-9+.-]+)(?: \(.*\))?,$", control, re.MULTILINE)) - {"debhelper-compat"}
        listed = set(re.findall(r"^(\S+) *# (?:build|package):", (harness.SOURCE / "config" / "packages.txt").read_text(), re.MULTILINE))
        self.assertIn("meson", needed)
        self.assertLessEqual(needed, listed)

    def test_lintian_reports_no_error(self):
        run("lintian", "--fail-on", "error", "--allow-root", *self.debs)

    def test_two_builds_are_the_same(self):
        build_packages(self.directory)
        again = sorted(self.directory.glob("*.deb"))
        for first, second in zip(self.debs, again, strict=True):
            with self.subTest(first.name):
                self.assertEqual(hashlib.sha256(first.read_bytes()).hexdigest(), hashlib.sha256(second.read_bytes()).hexdigest())

    def test_no_file_names_a_folder_of_this_machine(self):
        for deb in self.debs:
            with self.subTest(deb.name):
                tree = self.directory / deb.stem
                run("dpkg-deb", "-x", deb, tree)
                ours = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and not path.is_symlink()
                        and str(harness.SOURCE).encode() in path.read_bytes()]
                self.assertEqual(ours, [])

    def test_programs_depend_on_the_minor_version_of_the_library(self):
        """As dpkg-shlibdeps finds it. Before 1.0 the next minor version may have another ABI under the same soname."""
        deb = next(deb for deb in self.debs if deb.name.startswith("liburoce0_"))
        tree = self.directory / "debian" / "liburoce0"
        tree.parent.mkdir()
        run("dpkg-deb", "-R", deb, tree)
        (self.directory / "debian" / "control").write_text("Source: program\n\nPackage: program\nArchitecture: any\n")
        (self.directory / "program.cc").write_text("#include <uroce/daemon.h>\nint main() { return uroce::daemon_devices({}).has_value() ? 0 : 1; }\n")
        libraries = next(tree.glob("usr/lib/*/liburoce_client.so.0")).parent
        run(*os.environ.get("CXX", "g++").split(), "-std=c++23", f"-I{harness.SOURCE / 'include'}", f"-I{harness.BUILD / 'include'}",
            "program.cc", "-o", "program", f"-L{libraries}", "-l:liburoce_client.so.0", cwd=self.directory)
        found = run("dpkg-shlibdeps", "-O", f"-S{tree}", f"-l{libraries}", "program", cwd=self.directory)
        major, minor, _ = run("dpkg-deb", "-f", deb, "Version").strip().split(".")
        self.assertIn(f"liburoce0 (>= {major}.{minor}", found)
        self.assertIn(f"liburoce0 (<< {major}.{int(minor) + 1}~)", found)

    def test_programs_of_any_distribution_need_libc_alone(self):
        """Where the libraries go, no other package of ours or of Debian's need be."""
        deb = next(deb for deb in self.debs if deb.name.startswith("uroce-verbs_"))
        self.assertEqual(run("dpkg-deb", "-f", deb, "Depends").strip(), "libc6 (>= 2.28)")

    def test_nobody_else_gets_the_libraries(self):
        """The drop-in libraries have the names of rdma-core's: no dependency of another package may lead to them."""
        for deb in self.debs:
            with self.subTest(deb.name):
                names = [line.split()[-1] for line in run("dpkg-deb", "-c", deb).splitlines()]
                ours = [name for name in names if "libibverbs.so" in name or "librdmacm.so" in name]
                self.assertTrue(all("/uroce/" in name for name in ours), ours)
                scripts = self.directory / deb.stem
                run("dpkg-deb", "-e", deb, scripts)
                shlibs = scripts / "shlibs"
                self.assertNotIn("ibverbs", shlibs.read_text() if shlibs.exists() else "")

    def write_on(self, debian, namespace, peer, length="-n 2000"):
        """A container with a daemon on the interface that the settings name, and a user's ib_write_bw."""
        return self.start(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER, debian.root,
                           SERVE.replace("PEER", peer).replace("PORT", str(PERFTEST_PORT)).replace("LENGTH", length)], namespace,
                          {"PATH": PATH, "LC_ALL": "C"})

    @staticmethod
    def install_as_the_readme_says(debian, debs):
        """Runs the README's line, with yes to its question; the names that the line has."""
        line = re.search(r"^apt install \./build-package/\{([\w,-]+)\}_\*\.deb$", (harness.SOURCE / "README.md").read_text(), re.MULTILINE)
        folder = debian.root / "build-package"
        folder.mkdir()
        for deb in debs:
            shutil.copy(deb, folder)
        (debian.root / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
        debian.run("bash", "-c", line.group())
        shutil.rmtree(folder)
        return line.group(1).split(",")

    def use(self, debian):
        with harness.Namespaces() as net:
            server = self.write_on(debian, net.names[0], "")
            harness.wait_for_listener(net.names[0], PERFTEST_PORT, server, 60)
            client = self.write_on(debian, net.names[1], "10.199.0.1")
            output = self.finish(client, 120)
            self.finish(server, 120)
        for text in (output, server.output):
            self.assertIn("daemon: uroce", text)
            self.assertIn("daemon ended with 0", text)
        self.assertRegex(output, r"\n *65536 +2000 +[\d.]+ ")

    def wait_for_traffic(self, debian):
        """perftest says nothing before its end, where no terminal hears it."""
        limit = time.monotonic() + 60 * harness.SLOW
        while not any(row["traffic"]["tx_bytes"] > 1 << 20 for row in harness.loads(debian.run("uroce", "show", "client", "--json"))):
            self.assertLess(time.monotonic(), limit)

    def upgrade_under_traffic(self, debian):
        """apt upgrades the packages while a user's ib_write_bw runs, and the service's new daemon goes on with it."""
        debian.container = LASTING
        systemctl = debian.root / "usr/bin/systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        with harness.Namespaces() as net:
            service = Service(self, debian, net.names[0])
            try:
                server = self.write_on(debian, net.names[1], "", f"-D {self.SECONDS}")
                harness.wait_for_listener(net.names[1], PERFTEST_PORT, server, 60)
                write = (f"runuser -u games -- uroce-run ib_write_bw -d uroce0 -x 0 -m 1024 -D {self.SECONDS} -p {PERFTEST_PORT} -F "
                         "10.199.0.2")
                client = self.start(debian.command(write), net.names[0], debian.environment())
                self.wait_for_traffic(debian)
                self.assertIn("uroced is 0.0.0, and this tool", debian.run("uroce", "doctor"))
                debian.apt("install", *debian.add(self.debs))
                shown = debian.run("uroce", "doctor")
                self.assertIsNone(client.process.poll(), f"the traffic ended before the upgrade: {client}")
                self.finish(client, 2 * self.SECONDS)
                self.finish(server, 60)
            finally:
                service.over.set()
                service.join()
            self.assertIsNone(service.failure)
            self.assertEqual(service.end(), 0)
            service.manager.close()
        self.assertEqual(len(service.daemons), 2)
        self.assertRegex(service.daemons[1].output, r"took over from process \d+, uroced \S+: frozen \d+ ms, 1 queue pairs, 0 clients")
        self.assertRegex(shown, rf"daemon: uroced {run('dpkg-deb', '-f', self.debs[0], 'Version').strip()} serves 1 device")
        systemctl.unlink()
        for path in (debian.root / "srv").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        debian.container = CONTAINER

    def test_install_use_upgrade_purge(self):
        debian = BareDebian(self.directory)
        before = debian.files()
        debian.apt("update")
        debian.apt("install", "perftest")
        older = self.older()
        chosen_names = self.install_as_the_readme_says(debian, older)
        self.assertEqual(debian.versions(), {name: (self.base(), "installed") for name in chosen_names})
        debian.apt("install", *debian.add(older))
        self.assertEqual(debian.versions(), {name: (self.base(), "installed") for name in NAMES})
        settings = debian.root / SETTINGS
        chosen = settings.read_text() + ADMINS_LINES
        settings.write_text(chosen)
        # The service waits for the administrator.
        self.assertTrue((debian.root / "lib/systemd/system/uroced.service").exists())
        self.assertTrue((debian.root / "lib/systemd/system/uroce-nvmf.service").exists())
        self.assertEqual([p.name for p in (debian.root / "etc/systemd").rglob("uroce*.service")], [])
        self.assertRegex(debian.run("uroce_nvmf", "--version"), r"^uroce_nvmf \d")
        self.assertIn("[[subsystem]]", (debian.root / "etc/uroce/nvmf.toml").read_text())
        self.assertTrue((debian.root / "usr/share/man/man5/nvmf.toml.5.gz").exists())
        for user in ("uroce", "uroce-nvmf"):
            self.assertIn(f"\n{user}:", (debian.root / "etc/passwd").read_text())
        # Programs that uroce-run did not start have the system's library.
        self.assertNotIn("/uroce/", debian.run("ldconfig", "-p"))
        self.use(debian)

        self.upgrade_under_traffic(debian)
        version = run("dpkg-deb", "-f", self.debs[0], "Version").strip()
        self.assertEqual(debian.versions(), {name: (version, "installed") for name in NAMES})
        self.assertEqual(settings.read_text(), chosen)
        self.assertIn("[daemon]", settings.with_name("uroced.toml.dpkg-dist").read_text())
        self.use(debian)

        debian.apt("remove", *NAMES)
        self.assertEqual(settings.read_text(), chosen)
        self.assertFalse((debian.root / "usr/bin/uroced").exists())
        # The others have left nothing, and apt has forgotten them; these two have settings.
        debian.apt("purge", "uroce", "uroce-nvmf")
        self.assertEqual(debian.files(), before)
        # Files of the user may be left anywhere, so Debian keeps the user.
        self.assertIn("\nuroce:", (debian.root / "etc/passwd").read_text())


if __name__ == "__main__":
    harness.main()
