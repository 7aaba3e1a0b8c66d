#!/usr/bin/env python3
"""Manual pages and shell completions, as the build makes them."""

import os
import re
import shutil
import subprocess
import sys

import harness

sys.path.append(str(harness.SOURCE / "config" / "manual"))
import completion  # noqa: E402
import help_text  # noqa: E402

FOLDER = harness.BUILD / "config" / "manual"
PROGRAMS = {"uroced": "8", "uroce": "1", "uroce-run": "1", "uroce_nvmf": "1", "uroce_perf": "1"}
FOLDERS = {"uroced": "uroced", "uroce": "uroce", "uroce-run": "uroce-run", "uroce_nvmf": "nvmf", "uroce_perf": "."}
COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
function=_${1//-/_}
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*command, **kw):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * harness.SLOW,
                          check=False, **kw)
    return done.returncode, done.stdout, done.stderr


def path_of(program):
    if program == "uroce_sim":
        return harness.BUILD / "tests" / "sim" / program
    return harness.BUILD / "apps" / FOLDERS[program] / program


def help_options(program):
    """The long options in a program's --help."""
    _, text, _ = run(path_of(program), "--help")
    return {o for line in re.findall(r"^ +(-.*)$", text, re.MULTILINE) for o in re.findall(r"--[\w-]+", line.split("  ")[0])}


class Manual(harness.Case):
    def page(self, name):
        """The page as text, without the hyphens of line ends."""
        tree = self.directory / "man"
        for page in FOLDER.glob("*.[158]"):
            folder = tree / f"man{page.suffix[1:]}"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, folder)
        code, text, warnings = run("man", "-E", "UTF-8", "--warnings", "-l", tree / f"man{name.rsplit('.', 1)[1]}" / name,
                                   env={**os.environ, "MANWIDTH": "200", "MANROFFOPT": "-ww -rHY=0", "LC_ALL": "C.UTF-8"},
                                   cwd=tree)
        self.assertEqual((code, warnings), (0, ""), name)
        return text

    def test_pages_render_without_a_warning(self):
        names = sorted(page.name for page in FOLDER.glob("*.[158]"))
        self.assertLessEqual({f"{name}.{section}" for name, section in PROGRAMS.items()} | {"nvmf.toml.5", "uroced.toml.5", "uroce_write_bw.1"},
                             set(names))
        for name in names:
            with self.subTest(name):
                self.assertIn("SYNOPSIS", self.page(name))

    def test_a_page_has_every_option(self):
        for name, section in PROGRAMS.items():
            with self.subTest(name):
                text = self.page(f"{name}.{section}")
                options = help_options(name)
                self.assertIn("--help", options)
                found = {o for line in re.findall(r"^ +(-.*)$", text, re.MULTILINE) for o in re.findall(r"--[\w-]+", line)}
                self.assertLessEqual(options, found)

    def test_a_page_of_settings_has_every_key(self):
        for name, least in (("nvmf.toml", 4), ("uroced.toml", 61)):
            with self.subTest(name):
                text = self.page(f"{name}.5")
                sample = (harness.SOURCE / "config" / name).read_text()
                keys = re.findall(r"^#?([a-z_]+) = ", sample, re.MULTILINE)
                self.assertGreaterEqual(len(keys), least)
                for key in keys:
                    self.assertRegex(text, rf"(?m)^ +{key} = ")

    def test_the_page_of_the_target_has_the_keys_that_it_reads(self):
        text = self.page("nvmf.toml.5")
        settings = self.directory / "nvmf.toml"
        for lines, listed in (("none = 1", r"the file has (.*) and tables"), ("[[subsystem]]\nnone = 1", r"\[\[subsystem\]\] has (.*)")):
            settings.write_text(lines + "\n")
            code, _, errors = run(harness.BUILD / "apps" / "nvmf" / "uroce_nvmf", "--config", settings)
            self.assertEqual(code, 2, errors)
            for key in re.search(listed, errors)[1].split(", "):
                self.assertRegex(text, rf"(?m)^ +{key} = ")

    def test_bash_completes(self):
        for words, wanted in (
            (("uroce", "sho"), ["show"]),
            (("uroce", "show", "q"), ["qp"]),
            (("uroce", "stat", "--inter"), ["--interval"]),
            (("uroced", "--conf"), ["--config"]),
            (("uroced", "--idle", ""), ["busy", "yield", "sleep"]),
            (("uroced", "--demo", "--log-level", "w"), ["warning"]),
            (("uroced", "--interface", "l"), ["lo"]),
            (("uroce-run", "--net"), ["--netns"]),
            (("uroce_nvmf", "--name"), ["--namespace"]),
            (("uroce_nvmf", "--interface", "l"), ["lo"]),
            (("uroce_nvmf", "--idle", "sl"), ["sleep"]),
            (("uroce_perf", "--back"), ["--back-to-back"]),
            (("uroce_perf", "-m", "10"), ["1024"]),
        ):
            with self.subTest(" ".join(words)):
                code, found, errors = run("bash", "-c", COMPLETE, "bash", FOLDER / words[0], *words)
                self.assertEqual((code, found.split(), errors), (0, wanted, ""))
        code, found, _ = run("bash", "-c", COMPLETE, "bash", FOLDER / "uroce-run", "uroce-run", "--socket", "/tmp/s", "ba")
        self.assertIn("bash", found.split())

    def test_completions_have_every_option(self):
        for name in PROGRAMS:
            for file in (name, f"_{name}"):
                with self.subTest(file):
                    text = (FOLDER / file).read_text()
                    self.assertEqual({o for o in help_options(name) if not re.search(rf"{o}\b", text)}, set())

    def test_zsh_reads_its_completions(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is missing; config/packages.txt names it")
        for name in PROGRAMS:
            with self.subTest(name):
                self.assertEqual(run("zsh", "-n", FOLDER / f"_{name}"), (0, "", ""))


class Help(harness.Case):
    def every_help(self):
        """(words, --help) of each program and of each of its commands."""
        waiting = [[name] for name in [*PROGRAMS, "uroce_sim"]]
        for words in waiting:
            code, text, errors = run(path_of(words[0]), *words[1:], "--help")
            self.assertEqual((code, errors), (0, ""), words)
            yield words, text
            if below := re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE):
                waiting += [[*words, name] for name in re.findall(r"^  (\S+)", below[1], re.MULTILINE)]

    def test_only_printable_characters(self):
        seen = []
        for words, text in self.every_help():
            with self.subTest(" ".join(words)):
                self.assertEqual(re.findall(r"[^\n -~]", text), [])
            seen.append(" ".join(words))
        self.assertLessEqual({*PROGRAMS, "uroce_sim", "uroce show", "uroce show peer", "uroce doctor"}, set(seen))

    def test_words_are_no_numbers(self):
        """An option that has words refuses the number of one, and lists them."""
        before = {"uroced": ["--demo"], "uroce_perf": ["write_bw", "--"]}
        tried = set()
        for program in PROGRAMS:
            for option in help_text.read(path_of(program), [program]).options:
                words = completion.choices(option)
                if not isinstance(words, list):
                    continue
                with self.subTest(f"{program} {option.names[-1]}"):
                    code, _, errors = run(path_of(program), *before.get(program, []), option.names[-1], "2")
                    self.assertEqual(code, 2, errors)
                    for part in (option.names[-1], *words):
                        self.assertIn(part, errors)
                tried.add(f"{program} {option.names[-1]}")
        self.assertLessEqual({"uroced --idle", "uroced --log-level", "uroce_nvmf --idle", "uroce_perf --idle", "uroce_perf --tx-mode",
                              "uroce_perf --atomic_type", "uroce_perf --retransmission", "uroce_perf --connection",
                              "uroce_perf --congestion-control", "uroce_perf --mtu"}, tried)


if __name__ == "__main__":
    harness.main()
