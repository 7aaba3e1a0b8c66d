#!/usr/bin/env python3
"""Memory that was registered is ordinary memory again: private, anonymous, in one mapping with its neighbours. An ordinary
user's programs look for any difference."""

import glob
import os
import pathlib
import shutil
import signal

import harness
import verbs
from harness import BUILD, SOURCE

NOBODY = 65534
CLIENTS = BUILD / "tests" / "system" / "clients"
SOURCES = SOURCE / "tests" / "system" / "clients"
ROUNDS = 400
BUSY_SECONDS = 1.5
# 1000000 by hand, which is what a server does in weeks.
CYCLES = int(os.environ.get("UROCE_CYCLES", "20000"))
SEED = int(os.environ.get("UROCE_SEED", "31"))
# Of vm.max_map_count, for all that is not the program's own.
SPARE_MAPPINGS = 5530


class Case(verbs.SharedCase):
    daemon_args = ("--idle", "sleep")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared_socket.parent.chmod(0o755)

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)

    def as_user(self, *command, env=None, seconds=60):
        """A program under uroce-run that ends well, as a user without privileges where this runs as root; its output."""
        become = []
        if os.geteuid() == 0 and shutil.which("setpriv"):
            become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            if self.start([*become, "test", "-x", verbs.RUN]).wait(20) != 0:
                become = []
        return self.finish(self.start([*become, verbs.RUN, *command], env={**self.env, **(env or {})}), seconds)

    def client(self, name, *args, **options):
        output = self.as_user(CLIENTS / f"client_{name}", *args, **options)
        print("\n".join(f"# {line}" for line in output.splitlines()))
        return output


class Allocators(Case):
    """calloc() gives zeros after registered memory was freed, and no page stays shared."""

    def calloc(self, how, library=None, **env):
        if library:
            paths = [path for folder in ("/usr/lib", "/usr/lib64") for path in glob.glob(f"{folder}/*/{library}")]
            if not paths:
                self.skipTest(f"{library} is not installed; config/packages.txt names its package")
            env["LD_PRELOAD"] = paths[0]
        with self.subTest(how, **env):
            self.client("calloc_after", ROUNDS, how, env=env)

    def test_glibc(self):
        for how in ("defaults", "purge", "trim", "arena"):
            self.calloc(how)

    def test_jemalloc(self):
        self.calloc("defaults", "libjemalloc.so.2")
        self.calloc("purge", "libjemalloc.so.2")
        self.calloc("defaults", "libjemalloc.so.2", MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0")

    def test_tcmalloc(self):
        self.calloc("purge", "libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        # The second setting has another name from 2.1 on.
        self.calloc("purge", "libmimalloc.so.[23]", MIMALLOC_PAGE_RESET="1", MIMALLOC_DECOMMIT_DELAY="0", MIMALLOC_PURGE_DELAY="0")


class RawCalls(Case):
    def test_system_calls_past_libc(self):
        names = self.as_user(CLIENTS / "client_raw_calls").split()
        self.assertGreater(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.assertIn(f"ok {name}", self.as_user(CLIENTS / "client_raw_calls", name))


class Overlaps(Case):
    def test_pages_with_several_regions(self):
        self.client("last_region", 1000, SEED)


class Queues(Case):
    """They are left out of children."""

    def test_a_child_that_uses_them_ends_with_a_word(self):
        word = "a child of fork() has no queues of its parent"
        self.assertNotIn(word, self.client("child_polls"))
        said = self.client("child_polls", env={"UROCE_VERBOSE": "1"})
        self.assertIn("destroyed", said)
        self.assertIn(word, said)
        self.assertIn(f"signal {signal.SIGSEGV.value}", said)


class Mappings(Case):
    """Their number is bounded by what is registered now."""

    def cycles(self, kind):
        self.client("cycles", CYCLES, SEED, kind, seconds=60 + CYCLES // 500)

    def test_cycles_of_separate_pages(self):
        self.cycles("pages")

    def test_cycles_of_random_pieces(self):
        self.cycles("pieces")

    def test_a_program_with_many(self):
        most = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
        self.client("many_mappings", min(65536, most - SPARE_MAPPINGS))


class Busy(Case):
    """Other threads use the pages while regions begin and end."""

    def busy(self, *names):
        self.client("busy", BUSY_SECONDS, SEED, *names)

    def test_stores(self):
        self.busy("store")

    def test_children(self):
        self.busy("store", "fork")

    def test_pages_that_are_unmapped_and_moved(self):
        self.busy("store", "remap")

    def test_pages_that_are_unmapped_and_moved_while_others_register_them(self):
        self.busy("store", "race")

    def test_first_touches(self):
        self.busy("store", "fault")

    def test_all_at_once(self):
        self.busy("store", "fork", "remap", "fault")


class Languages(Case):
    def compiler(self, name, package):
        """Debian's own first: others may want to download parts of themselves."""
        path = shutil.which(name, path=f"/usr/bin:{os.environ['PATH']}")
        if path is None:
            self.skipTest(f"install {package} to run it")
        return path

    def compile(self, *command):
        env = {"GOCACHE": str(self.directory / "cache"), "GOPATH": str(self.directory / "go"), "GOFLAGS": "-mod=mod",
               "GO111MODULE": "off", "GOPROXY": "off"}
        self.finish(self.start(command, env=env), 120)

    def test_python(self):
        self.need("python3")
        self.as_user("python3", SOURCES / "ordinary_python.py")

    def test_go(self):
        program = self.directory / "program"
        self.compile(self.compiler("go", "golang-go"), "build", "-o", program, SOURCES / "ordinary_go.go")
        for what in ("heap", "mapped"):
            with self.subTest(what):
                self.as_user(program, what)

    def test_rust(self):
        program = self.directory / "program"
        self.compile(self.compiler("rustc", "rustc"), "-O", "-o", program, SOURCES / "ordinary_rust.rs")
        for what in ("vectors", "dont_need"):
            with self.subTest(what):
                self.as_user(program, what)


if __name__ == "__main__":
    harness.main()
