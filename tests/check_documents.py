#!/usr/bin/env python3
"""Compares the documents with the programs: settings, options, counters, paths, links, suites, variables and versions.

Usage: check_documents.py SOURCE_ROOT BUILD_ROOT

It runs the built programs for their --help, their keys and their counters; it needs no hardware. A line is shown for each
fault: FILE:LINE: what is wrong and what to do.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Options of other programs that the documents name.
FOREIGN = {
    "DPDK's EAL": "--no-pci --no-huge --in-memory --vdev --file-prefix --lcores",
    "meson": "--benchmark --no-rebuild --list",
    "GoogleTest": "--gtest_filter",
    "pkg-config": "--cflags --libs",
    "systemctl": "--now",
    "setpriv": "--init-groups",
    "useradd": "--system",
    "perf": "--stdio",
    "Open MPI": "--mca --oversubscribe",
    "fio": "--ioengine --name --port --rw --bs --size --hostname --verb --verify --iodepth",
    "nvme-cli": "--ctrl-loss-tmo",
    "perftest": "--rate_limit",
    "prometheus-node-exporter": "--path",
    "tgt": "--iser --lld --mode --op --tid --lun --targetname --backing-store --initiator-address --initiator-name",
}

OPTION = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")
SUITE = re.compile(r"^(?:unit|script|sim|fuzz|system|interop|abi)-[a-z0-9_-]+$")


class Document:
    """A Markdown file, its lines numbered from 1."""

    def __init__(self, root, path):
        self.root, self.path = root, path
        self.name = path.relative_to(root).as_posix()
        self.lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))

    def spans(self):
        """(line, text) of each piece of code: `spans` and the lines of code blocks."""
        fence = False
        for number, line in self.lines:
            if line.lstrip().startswith("```"):
                fence = not fence
            elif fence:
                yield number, line.strip(), True
            else:
                for span in re.findall(r"`([^`]+)`", line):
                    yield number, span, False

    def rows(self, heading):
        """(line, cells) of the table whose first row has this first cell."""
        inside = False
        for number, line in self.lines:
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
            if not cells:
                inside = False
            elif inside and not set(cells[0]) <= set("-: "):
                yield number, cells
            elif cells[0] == heading:
                inside = True

    def section(self, heading):
        """The lines from this heading to the next of its level."""
        inside, level = False, heading.split(" ")[0] + " "
        for number, line in self.lines:
            if line.startswith(level):
                inside = line == heading
            if inside:
                yield number, line


class Programs:
    """The built programs, and the facts that they print."""

    def __init__(self, build):
        self.build, self.apps = build, build / "apps"
        self.uroced = self.apps / "uroced" / "uroced"
        targets = json.loads((build / "meson-info" / "intro-targets.json").read_text())
        self.run_targets = [t["name"] for t in targets if t["type"] == "run"]
        self.tests = [t["name"] for t in json.loads((build / "meson-info" / "intro-tests.json").read_text())]
        targets = json.loads((build / "meson-info" / "intro-targets.json").read_text())
        self.outputs = {pathlib.Path(f).relative_to(build).as_posix() for t in targets for f in t["filename"]
                        if pathlib.Path(f).is_relative_to(build)}

    @staticmethod
    def output(*command):
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return done.stdout

    @functools.cache
    def options(self, program):
        """{"--socket": True, ...}: the long options in a program's --help and in that of its commands, and whether a text explains them."""
        where = {"uroce_perf": self.apps, "uroce_nvmf": self.apps / "nvmf",
                 "uroce_sim": self.build / "tests" / "sim"}.get(program, self.apps / program) / program
        words = {"uroce_perf": [["write_bw", "--", "--help"]],
                 "uroce": [["--help"]] + [[*c.split(), "--help"] for c in ("devices", "show qp", "stat", "top", "capture", "trace", "ping", "doctor", "fault add", "fault list")]}
        text = "".join(self.output(where, *w) for w in words.get(program, [["--help"]]))
        # An option stands at the beginning of its line; prose and examples may name others.
        rows = [re.split(r" {2,}|\n +", row, maxsplit=1) for row in re.findall(r"^ +(-.*(?:\n {20,}\S.*)?)$", text, re.MULTILINE)]
        found = {o: len(row) > 1 for row in rows for o in OPTION.findall(row[0])}
        if "--help" not in found:
            sys.exit(f"error: {where} --help lists no options: {text[:300]!r}")
        return found

    @functools.cache
    def keys(self):
        """{"daemon.socket", ...}: uroced lists the keys of a table when it meets one that it does not know."""
        found = set()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "bad.toml")
            file.write_text("[unknown]\n", encoding="utf-8")
            tables = re.findall(r"\[+([a-z]+)\]", self.output(self.uroced, "--check", file).rsplit("unknown]", 1)[1])
            for table in tables:
                file.write_text(f"[{table}]\nunknown = 1\n", encoding="utf-8")
                said = self.output(self.uroced, "--check", file).rsplit("unknown", 1)[1]
                found |= {f"{table}.{key}" for key in re.findall(r"[a-z_]+", said.rsplit(" has ", 1)[-1])}
        if "daemon.socket" not in found:
            sys.exit(f"error: uroced --check lists no keys of [daemon] for an unknown one: {sorted(found)}")
        return found

    @functools.cache
    def counters(self):
        """The names that `uroce stat` has for a device of a demo daemon."""
        with tempfile.TemporaryDirectory() as folder:
            socket, log = f"{folder}/uroced.sock", pathlib.Path(folder, "log")
            with log.open("wb") as out:
                daemon = subprocess.Popen([self.uroced, "--demo", "--socket", socket], stdout=out, stderr=out)
            try:
                limit = time.monotonic() + 60
                while "serving" not in log.read_text(errors="replace"):
                    if daemon.poll() is not None or time.monotonic() > limit:
                        sys.exit(f"error: uroced --demo did not start: {log.read_text(errors='replace')}")
                    time.sleep(0.05)
                said = self.output(self.apps / "uroce" / "uroce", "stat", "--all", "--interval", "0", "--json", "--socket", socket)
            finally:
                daemon.terminate()
                try:
                    daemon.wait(40)
                except subprocess.TimeoutExpired:
                    daemon.kill()
        return set(json.loads(said)[0]["counters"])


class Check:
    def __init__(self, root, build):
        self.root, self.programs = root, Programs(build)
        self.files = [p for p in self.walk() if p.suffix != ".pcap"]
        self.documents = {d.name: d for d in (Document(root, p) for p in self.files if p.suffix == ".md")}
        self.names = {p.name for p in self.files}
        self.faults = 0

    def walk(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
            yield from (pathlib.Path(folder, name) for name in sorted(names))

    def fault(self, document, line, text):
        print(f"{document}:{line}: {text}")
        self.faults += 1

    def settings(self):
        # The test "settings" compares the reference and the sample with the table that they are made of.
        keys, reference = self.programs.keys(), self.documents["config/settings.md"]
        documented = {key for _, cells in reference.rows("key") for key in re.findall(r"`([a-z_]+\.[a-z_]+)`", cells[0])}
        for key in sorted(keys ^ documented):
            self.fault(reference.name, 1, f"{key} is a key of uroced or of the reference alone: ninja -C build settings")
        tables = "|".join(sorted({k.split(".")[0] for k in keys}))
        for document in self.documents.values():
            for line, span, _ in document.spans():
                for key in re.findall(rf"(?<![\w/.-])(?:{tables})\.[a-z_]+(?![\w.(])", span):
                    if key not in keys and not (key.rsplit(".")[-1] in ("cc", "h", "md", "py")):
                        self.fault(document.name, line, f"uroced has no key {key}")

    def options(self):
        readme = self.documents["apps/README.md"]
        known = {option for options in FOREIGN.values() for option in options.split()} | {"--help", "--version"}
        for program in ("uroced", "uroce", "uroce-run", "uroce_perf", "uroce_nvmf"):
            mine = self.programs.options(program)
            known |= set(mine)
            lines = list(readme.section(f"## {program}"))
            # --help and the manual page made from it are the reference of options. Tables here may explain some more.
            for option in sorted(o for o in mine if not mine[o]):
                self.fault(readme.name, lines[0][0], f"{program} --help says nothing about {option}: give the option a text")
            rows = {o: n for n, line in lines if line.startswith("|") for o in OPTION.findall(line.split("|")[1])}
            for option in sorted(set(rows) - set(mine)):
                self.fault(readme.name, rows[option], f"{program} has no option {option}: remove the row")
        known |= set(self.programs.options("uroce_sim"))
        # The scripts' and test programs' own options stand in their text.
        for path in self.files:
            inside = path.relative_to(self.root)
            if inside.parts[0] in ("config", "tests") and path.suffix not in (".md", ".svg"):
                known |= set(re.findall(r"""["' (|](--[a-z][\w-]*)["'=) |]""", path.read_text(encoding="utf-8", errors="replace")))
        for document in self.documents.values():
            for line, span, _ in document.spans():
                for option in OPTION.findall(span):
                    if option not in known:
                        self.fault(document.name, line, f"no program here has an option {option}; if it is another's, add it to FOREIGN")

    def counters(self):
        page = self.documents["apps/metrics.md"]
        described = self.programs.output(self.programs.apps / "uroce" / "uroce", "stat", "--describe").splitlines()
        # The page says once how metrics are named.
        known = {re.sub(r"^(\| (?:`[a-z]\w*`|counter|---) \|) (?:`uroce_\S+`|metric) \|", r"\1", line) for line in described} | {"|---|---|"}
        for number, line in page.lines:
            if line.startswith("|") and line not in known:
                self.fault(page.name, number, "`uroce stat --describe` has no such row: copy it without its metric, or remove it")
        table = "lib/metrics/counter_table.cc"
        # Its first table; the second has the metrics that are no counters of a device.
        rows = set(re.findall(r"^\| `([a-z]\w*)` \| `uroce_", "\n".join(described), re.MULTILINE))
        # A demo has no port on an interface of the kernel.
        source = "".join((self.root / "pmd_glue" / name).read_text(encoding="utf-8") for name in ("kif/interface.cc", "udp_port.cc"))
        counters = self.programs.counters() | set(re.findall(r'\{"((?:kif|udp)_\w+)"', source)) | {"kernel_messages", "kernel_overruns"}
        for name in sorted(counters - rows):
            self.fault(table, 1, f"the counter {name} is missing: add it")
        for name in sorted(rows - counters):
            self.fault(table, 1, f"`uroce stat` has no counter {name}: remove it")

    def fault_rules(self):
        page = self.documents["config/faults.md"]
        words = self.programs.output(self.programs.apps / "uroce" / "uroce", "fault", "words").splitlines()
        rows = [(number, line) for number, line in page.section("## All words") if line.startswith("|")]
        for number, line in rows:
            if line not in words:
                self.fault(page.name, number, "`uroce fault words` prints another line: copy its output")
        for line in words:
            if line and line not in [row for _, row in rows]:
                self.fault(page.name, rows[0][0], f"`uroce fault words` also prints {line}: copy its output")

    def paths(self):
        tops = {p.name for p in self.root.iterdir() if p.is_dir() and not p.name.startswith((".", "build"))}
        for document in self.documents.values():
            here = document.path.parent
            beside = {p.name for p in here.iterdir() if p.is_dir()}
            for number, line in document.lines:
                for target in re.findall(r"\]\(([^)\s]+)\)", line):
                    self.link(document, number, target)
            for number, span, _ in document.spans():
                for word in re.findall(r"[\w./*<>{}\[\]-]+", span):
                    word = word.rstrip(".")
                    if re.search(r"[*<>{}\[\]]|[A-Z]{3}|^/", word.replace("README", "").replace("CHANGELOG", "")):
                        continue
                    first = word.split("/")[0]
                    if word.startswith("build/"):
                        if word.count("/") > 1 and word.removeprefix("build/") not in self.programs.outputs and not word.endswith("/"):
                            self.fault(document.name, number, f"the build makes no {word}")
                    elif "/" in word and first in tops | beside:
                        names = [(base / word).relative_to(self.root).as_posix() + "/" for base in (self.root, here)]
                        if not any((self.root / n).exists() for n in names) and word not in self.programs.outputs:
                            self.fault(document.name, number, f"there is no {word}: correct the path")
                    elif "/" not in word and re.search(r"\w\.(?:cc|h|py|sh|toml)$", word) and word not in self.names:
                        if not word.startswith(("example", "verbs.h", "dpdk-devbind", "get-vfio", "rdma-test")):  # other projects' files
                            self.fault(document.name, number, f"no file is named {word}: correct it")

    def link(self, document, number, target):
        if re.match(r"[a-z]+:", target):
            return
        path, _, anchor = target.partition("#")
        file = (document.path.parent / path).resolve() if path else document.path
        if not file.exists():
            self.fault(document.name, number, f"the link leads to {target}, which does not exist")
        elif anchor:
            text = (file / "README.md" if file.is_dir() else file).read_text(encoding="utf-8")
            anchors = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
            if anchor not in anchors:
                self.fault(document.name, number, f"the link leads to {target}, which has no such heading")

    def suites(self):
        readme = self.documents["tests/README.md"]
        named = set()
        for document in self.documents.values():
            for number, span, block in document.spans():
                words = span.split() if block or span.startswith("meson test") else [span]
                for word in words:
                    if SUITE.match(word) and not pathlib.Path(word).suffix:
                        named.add(word)
                        if word not in self.programs.tests + self.programs.run_targets:
                            self.fault(document.name, number, f"meson has no test or target named {word}")
        families = {s.split("-")[0] for _, cells in readme.rows("folder") for s in re.findall(r"`([a-z]+-[\w]+)`", cells[2])}
        plain = {span for _, span, _ in readme.spans()}
        for test in sorted(set(self.programs.tests)):
            if test.split("-")[0] not in families and test not in plain:
                self.fault(readme.name, 1, f"the suite {test} is missing: name it")

    def variables(self):
        code = "".join(p.read_text(encoding="utf-8", errors="replace") for p in self.files if p.suffix != ".md")
        for document in self.documents.values():
            for number, line in document.lines:
                for name in re.findall(r"\bUROCE_[A-Z_]+\b", line):
                    if name not in code:
                        self.fault(document.name, number, f"nothing reads the variable {name}")

    def versions(self):
        """Each place that states a version has meson.build's, and the symbols file the minor version that programs depend on."""
        def stated(name, pattern):
            text = (self.root / name).read_text(encoding="utf-8")
            return [(text.count("\n", 0, match.start()) + 1, match.group(1)) for match in re.finditer(pattern, text, re.MULTILINE)]

        version = stated("meson.build", r"^  version: '(.*)',$")[0][1]
        major, minor, _ = version.split(".")
        symbols = "debian/liburoce0.symbols"
        places = [("debian/changelog", stated("debian/changelog", r"^uroce \((.*?)\)")[:1], version),
                  ("CHANGELOG.md", stated("CHANGELOG.md", r"^## (.*)$")[:1], version),
                  ("RELEASE.md", stated("RELEASE.md", r"^# uroce (.*)$"), version),
                  (symbols, stated(symbols, r"\(symver\)\S+ (.*)$"), f"{major}.{minor}.0"),
                  (symbols, stated(symbols, r"\(<< (.*)\)$"), f"{major}.{int(minor) + 1}~")]
        for name, lines, wanted in places:
            if not lines:
                self.fault(name, 1, f"it states no version; meson.build has {version}")
            for line, found in lines:
                # Changes are gathered until the next release has a number.
                if found not in (wanted, "Unreleased"):
                    self.fault(name, line, f"it says {found} where meson.build's {version} wants {wanted}")


def main():
    root, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    check = Check(root, build)
    for one in (check.settings, check.options, check.counters, check.fault_rules, check.paths, check.suites, check.variables,
                check.versions):
        one()
    print(f"{len(check.documents)} documents, {check.faults} faults")
    return 1 if check.faults or not check.documents else 0


if __name__ == "__main__":
    sys.exit(main())
