#!/usr/bin/env python3
"""Checks that no sentence begins with a relative "Who", "What" or "Which": such a sentence has to be read twice.

Usage: check_prose.py SOURCE_ROOT

It reads documents, comments and string literals. Questions are fine. A line is shown for each fault:
FILE:LINE: the beginning of the sentence.
"""

import os
import pathlib
import re
import sys

CODE = {".cc", ".h", ".c"}
SCRIPT = {".py", ".sh", ".toml", ".build", ".service", ".map"}
RELATIVE = re.compile(r"(?:^|(?<=[.!?:;)] )|(?<=\n\n))(?:Who|What|Which|Whose|Whom|Whoever|Whatever|Whichever|Whomever)(?:'s|'ll)?\b(?:[^.?!]|[.?!](?=\S))*[.?!]?")


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")) and f not in ("corpus", "results"))
        for name in sorted(names):
            yield pathlib.Path(folder, name)


def joined(pieces):
    """Runs of pieces whose lines follow each other."""
    run = []
    for number, text in pieces:
        if run and number != run[-1][0] + 1:
            yield run
            run = []
        run.append((number, text))
    if run:
        yield run


def add_comment(text, match, line, comment, comments, strings):
    """A comment behind code is a text of its own. One on its own line may go on with the line before."""
    if text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip():
        strings.append([(line, comment)])
    else:
        comments.append((line, comment))


def code_texts(text):
    """Runs of (line, text): comments, line by line, and string literals of C++."""
    comments, strings = [], []
    token = re.compile(r'R"\((.*?)\)"|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)\'|//+<? ?([^\n]*)|/\*(.*?)\*/', re.DOTALL)
    for match in token.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        raw, string, comment, block = match.groups()
        if comment is not None:
            add_comment(text, match, line, comment, comments, strings)
        for literal in (raw, string, block):
            if literal is not None:
                strings.append([(line + n, part) for n, part in enumerate(literal.split("\n"))])
    yield from joined(comments)
    yield from strings


def script_texts(text):
    """The same of scripts: comments after #, and strings."""
    comments, strings = [], []
    token = re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|(?:^|(?<=\s))#+ ?([^\n]*)', re.DOTALL | re.MULTILINE)
    for match in token.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        comment = match.group(4)
        if comment is not None:
            add_comment(text, match, line, comment, comments, strings)
            continue
        literal = next(g for g in match.groups() if g is not None)
        strings.append([(line + n, part.strip()) for n, part in enumerate(literal.split("\n"))])
    yield from joined(comments)
    yield from strings


def document_texts(text):
    """Runs of a Markdown document: paragraphs, list items, cells of tables; without code blocks."""
    run, fence, below_heading = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        begins = re.match(r"\s*(#+|[*-]|\d+\.)\s+|\s*\|", line)
        if line.lstrip().startswith("```"):
            fence = not fence
        if run and (fence or begins or below_heading or not line.strip()):
            yield run
            run = []
        below_heading = line.startswith("#")
        if fence or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield [(number, cell.strip())]
            continue
        run.append((number, re.sub(r"^\s*(#+|[*-]|\d+\.)\s+", "", line).strip()))
    if run:
        yield run


def script_lines(text):
    """Packet scripts: titles and comments."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(?:==|#) ?(.*)", line)
        if match:
            yield [(number, match.group(1))]


def texts(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in CODE or path.name.endswith(".h.in"):
        return code_texts(text)
    if path.suffix == ".md":
        return document_texts(text)
    if path.suffix == ".txt" and "script" in path.parts:
        return script_lines(text)
    if path.suffix in SCRIPT or text.startswith("#!"):
        return script_texts(text)
    return []


def faults(path):
    for run in texts(path):
        whole, starts = "", []
        for number, part in run:
            starts.append((len(whole), number))
            # An empty line ends a sentence.
            whole += re.sub(r" +", " ", part.replace("**", "").replace("`", "")).strip() + ("\n" if part.strip() == "" else " ")
        whole = whole.strip()
        for match in RELATIVE.finditer(whole):
            if match.group().endswith("?"):
                continue
            line = max((at, number) for at, number in starts if at <= match.start())[1]
            yield line, match.group()[:60]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    checked = bad = 0
    for path in files(root):
        name = path.relative_to(root).as_posix()
        checked += 1
        for line, beginning in faults(path):
            print(f'{name}:{line}: "{beginning}...": say who, what or which it is; begin with the subject')
            bad += 1
    print(f"{checked} files, {bad} faults")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
