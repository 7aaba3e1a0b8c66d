"""A program's --help as data. The manual pages and the shell completions are made of it."""

import dataclasses
import re
import subprocess

SECTIONS = ("Positionals", "Options", "Subcommands")
# Headings of the text after the options, and those that manual pages have for them.
FOOTER = {"Examples": "EXAMPLES", "Exit codes": "EXIT STATUS", "Signals": "SIGNALS"}


@dataclasses.dataclass
class Option:
    names: list  # "-c", "--config"; for a positional its name alone
    argument: str  # what follows it, "" for a flag
    text: str


@dataclasses.dataclass
class Command:
    words: list  # ["uroce", "show", "qp"]
    version: str = ""
    summary: str = ""
    usage: str = ""
    description: list = dataclasses.field(default_factory=list)  # lines
    positionals: list = dataclasses.field(default_factory=list)
    options: list = dataclasses.field(default_factory=list)
    commands: list = dataclasses.field(default_factory=list)
    footer: dict = dataclasses.field(default_factory=dict)  # heading, "" for the text before the first: lines


def output(path, words):
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise SystemExit(f"error: {path} {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def argument_of(word):
    """(argument, its range as a sentence) of what stands behind an option's names."""
    word = word.removesuffix("REQUIRED").strip()
    many = " ..." if word.endswith("...") else ""
    kind = word.removesuffix("...").strip()
    if found := re.fullmatch(r"(\d\S*)\.\.(\d\S*)", kind):
        return f"N{many}", f"From {found[1]} to {found[2]}."
    return kind + many, ""


def option_of(left, text):
    """An option from its two columns, as apps/arguments or a program by itself writes them."""
    names, _, rest = left.strip().partition(" ")
    argument, limits = argument_of(rest)
    text = " ".join(text.split())
    if limits:
        text = f"{text.rstrip('.')}. {limits}"
    return Option(names.split(","), argument, text)


def read_options(lines):
    """Options from lines of two columns; a deeper line belongs to the one before."""
    found = []
    for line in lines:
        if match := re.match(r"  (\S.*?)(?:  +(.*))?$", line):
            found.append([match[1], match[2] or ""])
        elif line.strip():
            found[-1][1] += " " + line.strip()
    return [option_of(*one) for one in found]


def split(text):
    """({section: lines}, lines before all, lines after all)"""
    sections, before, after, current = {}, [], [], None
    for line in text.splitlines():
        heading = line.rstrip(":") if line.endswith(":") else None
        if heading in SECTIONS:
            current = sections.setdefault(heading, [])
        elif current is None and re.match(r"  --?\w", line):
            current = sections.setdefault("Options", [line])
        elif current is None:
            before.append(line)
        elif after or (line and not line.startswith(" ")):
            after.append(line)
        else:
            current.append(line)
    return sections, before, after


def read_footer(lines):
    footer, current = {}, ""
    for line in lines:
        match = re.match(r"([A-Z][\w ]*):(?: +(.*))?$", line)
        if match and match[1] in FOOTER:
            current, line = match[1], match[2] or ""
        elif not line:
            current = ""
        footer.setdefault(current, []).append(line)
    return footer


def read(path, words):
    """The command `words` of the program at `path`, with all commands below it."""
    text = output(path, [*words[1:], "--help"])
    sections, before, after = split(text)
    command = Command(words)
    if before[0].startswith(words[0] + " ["):
        command.usage, *command.description = before
    else:
        command.summary = before[0]
        command.usage = next(line for line in before if line.startswith("Usage: ")).removeprefix("Usage: ")
        if match := re.match(rf"{words[0]} [\d.]+: (.*)$", command.summary):
            command.summary = match[1]
    command.positionals = read_options(sections.get("Positionals", ()))
    command.options = read_options(sections.get("Options", ()))
    command.footer = read_footer(after)
    for one in read_options(sections.get("Subcommands", ())):
        command.commands.append(read(path, [*words, one.names[0]]))
        command.commands[-1].summary = f"{' '.join([*one.names[1:], one.argument, one.text])}".strip()
    return command


def leaves(command):
    """The commands that do something: those without commands below them."""
    return [leaf for one in command.commands for leaf in leaves(one)] if command.commands else [command]
