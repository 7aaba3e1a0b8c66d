#!/usr/bin/env python3
"""The Debian packages: what lintian says, two builds of them, and their life on a bare Debian."""

import hashlib
import os
import re
import shutil
import tempfile

import harness
from bare_debian import CONTAINER, PATH, BareDebian, build_packages, may_install, packages, run

NAMES = ("liburoce-dev", "liburoce0", "uroce", "uroce-doc", "uroce-nvmf", "uroce-perf", "uroce-verbs")
# The release that the upgrade begins from.
RELEASED = "0.1.0"
PERFTEST_PORT = 18515
SETTINGS = "etc/uroce/uroced.toml"
# The interface of harness.Namespaces that has an address of the kernel's.
ADMINS_LINES = '\n# The administrator was here.\n[[device]]\ninterface = "c0"\n'

# As an administrator, and then as a user without rights.
SERVE = """
uroced --config /etc/uroce/uroced.toml &
for i in $(seq 300); do uroce devices 2>/dev/null | grep -q " up " && break; sleep 0.1; done
uroce devices
echo "daemon: $(stat -c %U /proc/$!)"
code=0
runuser -u games -- timeout 60 uroce-run ib_write_bw -d uroce0 -x 0 -m 1024 -n 2000 -p PORT -F PEER || code=$?
kill $!
wait $!
echo "daemon ended with $?"
exit $code
"""


class Packages(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.missing = may_install()
        if cls.missing:
            return
        folder = tempfile.mkdtemp(prefix="uroce-test-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.debs = packages(folder)

    def setUp(self):
        if self.missing:
            self.skipTest(self.missing)
        super().setUp()

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

    def write_on(self, debian, namespace, peer):
        """A container with a daemon on the interface that the settings name, and a user's ib_write_bw."""
        return self.start(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER, debian.root,
                           SERVE.replace("PEER", peer).replace("PORT", str(PERFTEST_PORT))], namespace,
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

        debian.apt("install", *debian.add(self.debs))
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
