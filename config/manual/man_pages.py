#!/usr/bin/env python3
"""Writes the manual pages: of programs from their --help, and of the settings from the sample of them.

Usage: man_pages.py --folder FOLDER --version VERSION [--sample uroced.toml]... NAME.SECTION=PROGRAM[,ALIAS...]...
"""

import argparse
import pathlib
import re

import help_text
import roff

SOCKET = ("/run/uroce/uroced.sock", "The daemon's socket, through which programs open its devices.")
SETTINGS = ("/etc/uroce/uroced.toml", "The settings of the service; see uroced.toml(5).")
USES_SOCKET = ("UROCE_SOCKET", "The daemon's socket, if it is another one.")
# These are not in --help.
NVMF_SETTINGS = ("/etc/uroce/nvmf.toml", "The settings of the service uroce-nvmf: its interface and its disks; see nvmf.toml(5).")
FILES = {"uroce_nvmf": (NVMF_SETTINGS, SOCKET), "uroced": (SETTINGS, SOCKET), "uroce": (SOCKET,), "uroce-run": (SOCKET,)}
ENVIRONMENT = {
    "uroce": (USES_SOCKET,),
    "uroce_nvmf": (USES_SOCKET,),
    "uroce_perf": (USES_SOCKET,),
    "uroce-run": (USES_SOCKET, ("UROCE_VERBOSE", "With 1 the libraries print why a call failed.")),
}
# Of a page of settings: its summary, where the file is, and what it is.
SAMPLES = {
    "uroced.toml": ("settings of the uroce daemon", SETTINGS[0], (
        "The daemon uroced(8) reads its settings from this file (TOML).",
        "A key stands below with its default, or with an example where it has none; [live] marks those that a SIGHUP changes.")),
    "nvmf.toml": ("settings of the NVMe over Fabrics target", NVMF_SETTINGS[0], (
        "The service uroce-nvmf, which is uroce_nvmf(1), reads its settings from this file (TOML).",
        "A key stands below with an example; none has to be there but those of a subsystem.")),
}
SUMMARY = {"uroce-run": "runs unmodified verbs programs on uroce"}


def option(one):
    argument = f" {roff.italic(one.argument)}" if one.argument else ""
    return [".TP", ", ".join(map(roff.bold, one.names)) + argument, *([roff.escape(one.text)] if one.text else [])]


def options(command):
    return [line for one in command.options for line in option(one)]


def terms(pairs):
    return [line for name, text in pairs for line in (".TP", roff.italic(name), roff.escape(text))]


def usage(command):
    return roff.bold(" ".join(command.words)) + " " + roff.escape(command.usage.removeprefix(" ".join(command.words)).strip())


def leaf(command):
    """A command below the program: usage, summary, its own options."""
    out = [f".SS {roff.quote(usage(command))}", roff.escape(command.summary + ".")]
    own = [one for one in command.options if "--help" not in one.names]
    out += [line for one in own for line in option(one)]
    return out


def commands(program):
    """All commands, each with its options; text that a command has for itself follows."""
    out = roff.heading("COMMANDS")
    for one in program.commands:
        for command in help_text.leaves(one):
            out += leaf(command)
        if one.footer != program.footer:
            out += [".PP", *roff.paragraphs(one.footer.get("", []))]
    return out


def see_also(names, me):
    return ", ".join(f"\\fB{roff.escape(name)}\\fR({section})" for name, section in names if name != me)


def page_of(program, name, section, version, names):
    summary = SUMMARY.get(name, program.summary).rstrip(".")
    out = roff.title(name, section, version)
    out += roff.heading("NAME") + [f"{roff.escape(name)} \\- {roff.escape(summary)}"]
    out += roff.heading("SYNOPSIS") + [usage(program)]
    text = [*program.description, "", *program.footer.get("", [])]
    out += roff.heading("DESCRIPTION") + roff.paragraphs(text if any(text) else [program.summary])
    out += roff.heading("OPTIONS") + options(program)
    if program.commands:
        out += commands(program)
    for heading, title in sorted(help_text.FOOTER.items(), key=lambda pair: pair[1] == "EXAMPLES"):
        lines = program.footer.get(heading)
        if lines:
            out += roff.heading(title) + (roff.literal(lines) if title == "EXAMPLES" else roff.paragraphs(lines))
    for title, table in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        if name in table:
            out += roff.heading(title) + terms(table[name])
    return out + roff.heading("SEE ALSO") + [see_also(names, name)]


def settings(sample):
    """[(table, text, [([keys], text)])] of the sample; the first has no table."""
    tables, comment = [("", [], [])], []
    for line in sample.splitlines():
        if match := re.match(r"#?(\[+[a-z]+\]+)$", line):
            tables.append((match[1], comment, []))
            comment = []
        elif match := re.match(r"#?([a-z_]+ = .*)$", line):
            keys = tables[-1][2]
            if comment or not keys:
                keys.append(([], comment))
            keys[-1][0].append(match[1])
            comment = []
        elif line.startswith("#"):
            comment.append(line[1:].removeprefix(" "))
        elif comment and len(tables) == 1 and not tables[0][1]:
            tables[0][1].extend(comment)
            comment = []
    return tables


def key_terms(keys):
    out = []
    for lines, meaning in keys:
        out += [".TP", roff.bold(lines[0])]
        for line in lines[1:]:
            out += [".TQ", roff.bold(line)]
        out += [roff.escape(" ".join(meaning))] if meaning else []
    return out


def settings_page(sample, name, version, names):
    summary, file, text = SAMPLES[name]
    out = roff.title(name, 5, version)
    out += roff.heading("NAME") + [f"{name} \\- {summary}"]
    (_, above, first_keys), *tables = settings(sample)
    out += roff.heading("SYNOPSIS") + [roff.italic(file)]
    out += roff.heading("DESCRIPTION") + [roff.escape(line) for line in text]
    # The sample's first line says that it is a sample.
    out += [".PP", *roff.paragraphs(above[2:])]
    if first_keys:
        out += roff.heading("KEYS") + key_terms(first_keys)
    for table, text, keys in tables:
        out += roff.heading(table) + roff.paragraphs(text) + key_terms(keys)
    return out + roff.heading("SEE ALSO") + [see_also(names, name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--sample", type=pathlib.Path, action="append", default=[], dest="samples")
    parser.add_argument("pages", nargs="+")
    args = parser.parse_args()
    pages = []
    for page in args.pages:
        file, _, rest = page.partition("=")
        program, *aliases = rest.split(",")
        pages.append((*file.rsplit(".", 1), program, aliases))
    names = sorted([(name, section) for name, section, *_ in pages] + [(sample.name, "5") for sample in args.samples])
    written = {}
    for name, section, program, aliases in pages:
        written[f"{name}.{section}"] = page_of(help_text.read(program, [name]), name, section, args.version, names)
        # soelim(1): the page of another name is this page.
        written |= {f"{alias}.{section}": [f".so man{section}/{name}.{section}"] for alias in aliases}
    for sample in args.samples:
        written[f"{sample.name}.5"] = settings_page(sample.read_text(encoding="utf-8"), sample.name, args.version, names)
    for file, lines in written.items():
        (args.folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
