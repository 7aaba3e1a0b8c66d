#!/usr/bin/env python3
"""`meson install`, and what an outside program finds there."""

import os
import pathlib
import subprocess

import harness

PROGRAM = r"""
#include <cstdio>
#include <uroce/uroce.h>

int main() {
  auto stack = uroce::Stack::start({"--no-such-eal-option"}, {});
  if (stack) return 3;
  std::printf("uroce %s: %s\n", uroce::kVersion, stack.error().text.c_str());
  return stack.error().code == 0 ? 4 : 0;
}
"""

# Says where its libraries are from, and which device it listens on.
RDMA_CM_PROGRAM = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

static void say_where(const char *name) {
  Dl_info info;
  puts(dladdr(dlsym(RTLD_DEFAULT, name), &info) ? info.dli_fname : name);
}

int main(int argc, char **argv) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  struct rdma_cm_id *id;
  say_where("rdma_bind_addr");
  say_where("ibv_open_device");
  inet_pton(AF_INET, argv[1], &address.sin_addr);
  if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&address) || rdma_listen(id, 1)) {
    perror("rdma_cm");
    return 1;
  }
  printf("%s listens\n", ibv_get_device_name(id->verbs->device));
  return rdma_destroy_id(id);
}
"""


def run(*command, **kw):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300 * harness.SLOW, check=False, **kw)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(harness.Case):
    def setUp(self):
        super().setUp()
        run("meson", "install", "-C", harness.BUILD, "--no-rebuild", "--quiet", "--destdir", self.directory)
        files = list(self.directory.rglob("uroce.pc"))
        self.assertEqual(len(files), 1, files)
        self.prefix = next(p for p in files[0].parents if (p / "include").is_dir())
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(files[0].parent)}

    def pkg_config(self, *args):
        return run("pkg-config", f"--define-variable=prefix={self.prefix}", *args, "uroce", env=self.env).split()

    def test_an_outside_program_builds_and_runs(self):
        source, program = self.directory / "main.cc", self.directory / "main"
        source.write_text(PROGRAM)
        run("g++", "-std=c++23", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", program,
            *self.pkg_config("--cflags", "--libs"))
        libdir = self.pkg_config("--variable=libdir")[0]
        output = run(program, env={**os.environ, "LD_LIBRARY_PATH": libdir})
        self.assertRegex(output, r"uroce 0\.\d+\.\d+: .+")

    def test_each_header_compiles_alone(self):
        flags = self.pkg_config("--cflags")
        headers = sorted(p.relative_to(self.prefix / "include") for p in (self.prefix / "include").rglob("*.h"))
        self.assertIn(pathlib.Path("uroce/verbs/context.h"), headers)
        for header in headers:
            source = self.directory / "header.cc"
            source.write_text(f"#include <{header}>\n")
            run("g++", "-std=c++23", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", source, *flags)

    def test_the_library_has_its_soname(self):
        library = next(self.prefix.rglob("liburoce.so.0"))
        self.assertIn("[liburoce.so.0]", run("readelf", "-d", library))

    def test_only_the_public_api_is_exported(self):
        symbols = run("nm", "-DC", "--defined-only", next(self.prefix.rglob("liburoce.so.0"))).splitlines()
        names = [line.split(maxsplit=2)[2] for line in symbols]
        public = [n for n in names if n.startswith("uroce::")]
        self.assertTrue(any(n.startswith("uroce::QueuePair::post_send") for n in public), names)
        self.assertTrue(any(n.startswith("uroce::Stack::start") for n in public), names)
        inner = tuple(f"uroce::{n}::" for n in ("wire", "memory", "queues", "transport", "control", "cm", "client", "glue"))
        foreign = [n for n in names if n.startswith(inner) or not n.startswith(("uroce::", "UROCE_0"))]
        self.assertEqual(foreign, [])

    def test_the_benchmarks_have_their_names(self):
        folder = self.prefix / "bin"
        wanted = {"uroce_perf"} | {f"uroce_{v}_{k}" for v in ("write", "read", "send", "atomic") for k in ("bw", "lat")}
        self.assertLessEqual(wanted, {p.name for p in folder.iterdir()})
        for name in wanted:
            self.assertTrue(os.access(pathlib.Path(folder / name), os.X_OK), name)

    def test_a_program_of_rdma_cm_runs_under_the_installed_uroce_run(self):
        """It starts the installed daemon, as none answers, and its libraries are the installed ones."""
        if not (harness.BUILD / "lib" / "dropin" / "rdmacm" / "librdmacm.so.1").exists():
            self.skipTest("librdmacm.so.1 is not built here; config/packages.txt names what it needs")
        source, program = self.directory / "who.c", self.directory / "who"
        source.write_text(RDMA_CM_PROGRAM)
        run("gcc", "-Wall", source, "-o", program, "-lrdmacm", "-libverbs")
        libraries = [str(next(self.prefix.rglob(name))) for name in ("librdmacm.so.1", "libibverbs.so.1")]
        output = run(self.prefix / "bin" / "uroce-run", program, "10.117.0.1",
                     env={**os.environ, "UROCE_SOCKET": str(self.directory / "socket")})
        self.assertEqual(output.splitlines(), [*libraries, "uroce0 listens"])


if __name__ == "__main__":
    harness.main()
