#!/usr/bin/env python3
"""Writes completions for bash and zsh from the --help of programs.

Usage: completion.py --folder FOLDER NAME=PROGRAM[,ALIAS...]...

FOLDER gets NAME for bash and _NAME for zsh.
"""

import argparse
import pathlib
import re

import help_text

# Options whose value is a file, by their name in whatever program.
FILES = {"--config", "--check", "--socket", "--write", "--out_json_file"}
INTERFACES = {"--interface"}
DEVICES = {"--device", "--ib-dev", "device"}
# Programs that run another program: its name and words follow the options.
RUNNERS = {"uroce-run"}


def identifier(words):
    return "_" + "_".join(re.sub(r"\W", "_", word) for word in words)


def choices(option):
    """The values of an option: a list of them, "file", "interface", "device", or None for any."""
    for kind, names in (("file", FILES), ("interface", INTERFACES), ("device", DEVICES)):
        if names & set(option.names):
            return kind
    if only := re.search(r": only ([\w-]+)$", option.text):
        return [only[1]]
    # "busy, yield or sleep (default)" at the end of the text.
    listed = re.search(r"(?:^|: )((?:[\w-]+(?: \(default\))?, )*[\w-]+(?: \(default\))? or [\w-]+)(?: \(default[^)]*\))?$", option.text)
    return re.findall(r"[\w-]+", re.sub(r" \(default\)| or ", " ", listed[1])) if listed and option.argument else None


class Bash:
    """One function for each program. It looks for the command among the words before the cursor."""

    # The daemon tells its devices, if it runs.
    WORDS = {"interface": '"$(ls /sys/class/net)"', "device": "\"$(uroce devices 2>/dev/null | awk 'NR > 1 {print $1}')\""}

    def words(self, found):
        if found is None:
            return "return"
        choose = "-f" if found == "file" else "-W " + (self.WORDS[found] if isinstance(found, str) else f"'{' '.join(found)}'")
        return f'mapfile -t COMPREPLY < <(compgen {choose} -- "$cur") && return'

    def case(self, command):
        """The words that may stand at the cursor behind this command."""
        lines = [f"    '{' '.join(command.words)}')", "      case $prev in"]
        lines += [f"        {' | '.join(one.names)}) {self.words(choices(one))} ;;" for one in command.options if one.argument]
        lines += ["      esac"]
        lines += [f"      [[ $cur == -* ]] || {{ {self.words(choices(one))}; }}" for one in command.positionals if choices(one)]
        words = [one.words[-1] for one in command.commands] + [name for one in command.options for name in one.names]
        lines += [f"      words='{' '.join(words)}'", "      ;;"]
        return lines + [line for one in command.commands for line in self.case(one)]

    def program(self, command, aliases):
        name, function = command.words[0], identifier(command.words)
        lines = [f"# bash completion of {name}", f"{function}() {{",
                 "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} "
                 f"words='' at='{name}'" + (" i" if command.commands or name in RUNNERS else "")]
        if command.commands:
            paths = [" ".join(one.words) for one in self.everything(command)[1:]]
            lines += ["  for ((i = 1; i < COMP_CWORD; i++)); do", '    case "$at ${COMP_WORDS[i]}" in',
                      "      " + " | ".join(f"'{path}'" for path in paths) + ") at+=\" ${COMP_WORDS[i]}\" ;;", "    esac", "  done"]
        if name in RUNNERS:
            lines += self.runner(command)
        lines += ["  case $at in", *self.case(command), "  esac", '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")', "}",
                  f"complete -o default -F {function} {' '.join([name, *aliases])}"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def runner(command):
        """At the first word that is neither an option nor its value another program's completion begins."""
        with_value = " | ".join(name for one in command.options if one.argument for name in one.names)
        return ["  for ((i = 1; i < COMP_CWORD; i++)); do", "    case ${COMP_WORDS[i]} in", f"      {with_value}) i=$((i + 1)) ;;",
                "      -*) ;;", "      *) break ;;", "    esac", "  done",
                "  if [[ $cur != -* || $i -lt $COMP_CWORD ]] && [[ $i -le $COMP_CWORD ]]; then",
                "    if declare -F _command_offset >/dev/null; then",
                '      _command_offset "$i"', "    else", '      mapfile -t COMPREPLY < <(compgen -c -- "$cur")', "    fi",
                "    return", "  fi"]

    def everything(self, command):
        return [command] + [below for one in command.commands for below in self.everything(one)]


class Zsh:
    """_arguments(1) has a specification of each option."""

    VALUES = {"file": "_files", "interface": "_net_interfaces", "device": "($(uroce devices 2>/dev/null | awk \"NR > 1 {print \\$1}\"))", None: " "}

    @staticmethod
    def text(words):
        return re.sub(r"([\[\]:\\])", r"\\\1", words).replace("'", "'\\''")

    def value(self, option):
        found = choices(option)
        what = f"({' '.join(found)})" if isinstance(found, list) else self.VALUES[found]
        optional = option.argument.startswith("[")
        return f"{'::' if optional else ':'}{self.text(option.argument.strip('[].') .strip())}:{what}"

    def option(self, one):
        spec = f"[{self.text(one.text)}]" + (self.value(one) if one.argument else "")
        if len(one.names) == 1:
            return f"'{'*' if one.argument.endswith('...') else ''}{one.names[0]}{spec}'"
        return f"'({' '.join(one.names)})'{{{','.join(one.names)}}}'{spec}'"

    def function(self, command):
        lines = [f"{identifier(command.words)}() {{"]
        specs = [self.option(one) for one in command.options]
        if command.commands:
            lines += ["  local state line", "  local -a commands=("]
            lines += [f"    '{one.words[-1]}:{self.text(one.summary)}'" for one in command.commands]
            lines += ["  )"]
            specs += ["'1: :->command'", "'*:: :->rest'"]
        elif command.words[0] in RUNNERS:
            specs += ["'(-)*:: :_normal'"]
        else:
            specs += [f"'*:{self.text(one.names[0])}:{self.VALUES[choices(one)]}'" for one in command.positionals]
        lines += [f"  _arguments {'-C ' if command.commands else ''}-s \\"]
        lines += [f"    {spec} \\" for spec in specs[:-1]] + [f"    {specs[-1]}"]
        if command.commands:
            lines += ["  case $state in", "    command) _describe command commands ;;", "    rest)", "      case $words[1] in"]
            lines += [f"        {one.words[-1]}) {identifier(one.words)} ;;" for one in command.commands]
            lines += ["      esac", "      ;;", "  esac"]
        lines += ["}", ""]
        return lines + [line for one in command.commands for line in self.function(one)]

    def program(self, command, aliases):
        name = command.words[0]
        lines = [f"#compdef {' '.join([name, *aliases])}", "", *self.function(command), f'{identifier(command.words)} "$@"']
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    for one in args.programs:
        name, _, rest = one.partition("=")
        program, *aliases = rest.split(",")
        command = help_text.read(program, [name])
        (args.folder / name).write_text(Bash().program(command, aliases), encoding="utf-8")
        (args.folder / f"_{name}").write_text(Zsh().program(command, aliases), encoding="utf-8")


if __name__ == "__main__":
    main()
