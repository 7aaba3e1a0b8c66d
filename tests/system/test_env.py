#!/usr/bin/env python3
"""`. config/env.sh`: the programs on the PATH of bash, dash and zsh, and built when they are first run.

The clone is a copy of config/ with a ninja that makes scripts instead of programs."""

import os
import re
import shutil
import subprocess

import harness

# Of `build NAME`: writes what it was asked for, and makes each: a script that prints its name and its arguments.
NINJA = """#!/bin/bash
echo "[1/1] $*"
while [[ $1 = -* ]]; do [ "$1" = -C ] && cd "$2"; shift 2; done
echo "$*" >> asked
for made; do
  mkdir -p "${made%/*}"
  printf '#!/bin/bash\\necho "${0##*/} $*"\\n' > "$made"
  chmod +x "$made"
done
"""
PROGRAMS = ("uroced", "uroce", "uroce-run", "uroce_nvmf", "uroce_perf")


class Env(harness.Case):
    def setUp(self):
        super().setUp()
        self.clone = self.directory / "a clone"
        self.build = self.clone / "build"
        self.build.mkdir(parents=True)
        shutil.copytree(harness.SOURCE / "config", self.clone / "config", symlinks=True)
        tools = self.directory / "tools"
        tools.mkdir()
        for name, script in (("ninja", NINJA), ("meson", "#!/bin/sh\ntouch build/build.ninja\n"),
                             ("dpkg-query", "#!/bin/sh\necho installed\n"), ("apt-get", "#!/bin/sh\nexit 9\n")):
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin"}

    def shell(self, script, shell="bash", where=None):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed; config/packages.txt names its package")
        return subprocess.run([shell, "-c", script], cwd=where or self.clone, env=self.env, capture_output=True, text=True,
                              timeout=60 * harness.SLOW, check=False)

    def asked(self):
        return (self.build / "asked").read_text().splitlines()

    def check(self, shell):
        run = self.shell(". config/env.sh && . config/env.sh && uroced --demo && uroce_write_bw -s '8 b' && echo $PATH", shell)
        self.assertEqual(run.returncode, 0, run.stderr)
        said = run.stdout.splitlines()
        self.assertEqual(said[:2], ["uroced --demo", "uroce_perf -s 8 b"])
        self.assertEqual(said[2].count("/path"), 1)
        self.assertIn("uroced is not built yet; building it", run.stderr)
        self.assertIn("[1/1] ", run.stderr)
        self.assertEqual(self.asked(), ["apps/uroced/uroced", "apps/uroce_perf"])

    def test_bash(self):
        self.check("bash")

    def test_dash(self):
        self.check("dash")

    def test_zsh(self):
        self.check("zsh")

    def test_from_another_folder(self):
        for shell in ("bash", "zsh"):
            run = self.shell(f". '{self.clone}/config/env.sh' && uroce show", shell, self.directory)
            self.assertEqual(run.stdout, "uroce show\n", run.stderr)

    def test_dash_from_another_folder(self):
        run = self.shell(f". '{self.clone}/config/env.sh' || echo not", "dash", self.directory)
        self.assertEqual(run.stdout, "not\n")
        self.assertIn("is not the top of a clone", run.stderr)

    def test_built_once(self):
        """Programs that are started together build one after the other; nothing is built twice."""
        run = self.shell(". config/env.sh; for i in 1 2 3 4; do uroce-run $i & done; wait; uroced; sh -c 'exec uroce-run 5'")
        self.assertEqual(sorted(run.stdout.splitlines()), [*(f"uroce-run {i}" for i in range(1, 6)), "uroced "], run.stderr)
        self.assertEqual(len(self.asked()), 1)

    def test_a_build_that_fails(self):
        self.shell("echo 'exit 3' > ../tools/ninja")
        run = self.shell(". config/env.sh; uroce show")
        self.assertEqual(run.returncode, 1)
        self.assertIn("uroce could not be built", run.stderr)

    def test_the_name_of_each_program(self):
        """They are those that are installed, and ninja knows what each needs."""
        run = self.shell(". config/env.sh && for name in build/path/*; do ${name##*/}; done")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = re.findall(r"foreach (?:verb|kind) : \[(.*)\]", (harness.SOURCE / "apps/meson.build").read_text())
        verbs, kinds = (re.findall(r"'(\w+)'", row) for row in rows)
        tests = {f"uroce_{verb}_{kind}" for verb in verbs for kind in kinds}
        self.assertEqual({path.name for path in (self.build / "path").iterdir()}, {*PROGRAMS, *tests, "lock"})
        targets = sorted(set(" ".join(self.asked()).split()))
        subprocess.run(["/usr/bin/ninja", "-C", harness.BUILD, "-t", "query", *targets], check=True, timeout=60 * harness.SLOW,
                       stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    harness.main()
