#!/usr/bin/env python3
"""Finds sentences that have to be read twice, in documents, comments and string literals.

Usage: check_prose.py SOURCE_ROOT

* No sentence begins with a relative "Who", "What" or "Which". Questions are fine.
* No sentence is a preposition with its nouns and nothing more: "Of the program.", "For tests."
* No clause has a relative clause for its subject, as "; who acts on it" before another verb.
* No "it were" where a fact is meant.

A line is shown for each fault: FILE:LINE: the beginning of the sentence, and what to do.
"""

import os
import pathlib
import re
import sys

CODE = {".cc", ".h", ".c"}
SCRIPT = {".py", ".sh", ".toml", ".build", ".service", ".map"}
RELATIVE = re.compile(r"(?:^|(?<=[.!?:;)] )|(?<=\n\n))(?:Who|What|Which|Whose|Whom|Whoever|Whatever|Whichever|Whomever)(?:'s|'ll)?\b(?:[^.?!]|[.?!](?=\S))*[.?!]?")
PREPOSITIONS = ("Of|For|By|With|Without|In|At|From|As|Like|Between|Behind|Beside|Among|Against|Under|Until|During|Since|Through|Within|On|Onto|After|"
                "Before|Per|Into|Over|Above|Below")
PHRASE = re.compile(rf"(?:^|(?<=[.!?] )|(?<=\n\n))(?:{PREPOSITIONS}) (?:[^.?!\n]|[.?!](?=\S))*\.(?=\s|$)")
# A longer one without a comma is a sentence whose verb is not in the list.
MOST_WORDS = 12
# Forms that make a sentence of a phrase: verbs as they are written here behind a subject, and imperatives.
VERBS = frozenset("""
accesses acknowledges acts add adds affect affects agree aims allows announces answered are arrive arrived arrives ask asked
asks be became becomes been began begin begins belong belongs bind binds bring brings build builds call calls came can can't
cannot carries caused change changed changes checks choose clamps clears close come comes compare compile compiles completes
concerns connect connects continue continues cost costs could count counts cover covers create creates cuts decide defines
delivers depends describes destroys determines did died dies differ directs do does doesn't don't doubles draw drive drives
drop drops echoes encode end ended ends enters establishes executes exist exists exit expect fail failed fails fall falls
faults fill fills find finds fires fit fits follow follows foresaw found frees gave get gets give gives go goes got grant
grow grows had hand handle handles hands hang hangs happens has have hears hold holds identifies ignore ignores imports
includes install installs is isn't join joins judges keep keeps kept kills know knows lacks land lands lasts lead leads
learns leave leaves lends let lets lies listened listens lives look looked looks lose loses made make makes matter matters
may mean measures meet meets met might misses move moved moves must names need needn't needs open opens
outlive outlives overdraws override overwrites owns pass passes pays poll polls posts precedes print prints protects publish
publishes put puts raise raises ran raw reach reaches read reads receives recovers redirects refers refuse refuses registers
reject repeat repeats replaces resolved resolves restores retries return returns rise rises run runs said save saves say says
see sees send sends sent serve served serves set sets share shares should show shows sleep sleeps sniffs speeds spreads stand
stands start starts starves stay stays stood stop stops store suits sum sums supplies take taken takes talks teaches tell
tells took touch touches travel travels tries truncates try unmaps update use used uses validates visits wait waited
waits wake wakes walks want wants warn was watch watches were who will won't work worked works would write writes
written wrote yields
""".split())
CLAUSE = re.compile(r"(?:[;:,]|\b(?:so that|because|while|that|if|until|and|but|or)) (?:and |but |so |then )?(who|whoever|what|whatever)((?: [\w'()/-]+)+)")
FINITE = frozenset("is was has does can may must will would comes goes stays waits begins finds gets leaves sets takes gives keeps makes".split())
# A verb behind one of these belongs to it.
OPENERS = frozenset("and or that which who what".split())
SUBJUNCTIVE = re.compile(r"\b(?:where|when|that|because) (?:it|he|she|one) were\b")
# Its texts are faults.
OWN_TEST = "tests/check_prose_test.py"


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


def joined_text(run):
    """The run as one text, and where in it each line begins."""
    whole, starts = "", []
    for number, part in run:
        starts.append((len(whole), number))
        # An empty line ends a sentence.
        whole += re.sub(r" +", " ", part.replace("**", "").replace("`", "")).strip() + ("\n" if part.strip() == "" else " ")
    return whole.rstrip(), starts


def relatives(whole):
    for match in RELATIVE.finditer(whole):
        if not match.group().endswith("?"):
            yield match.start(), match.group(), "say who, what or which it is; begin with the subject"


def is_phrase(sentence):
    """True if it has no verb. Behind a comma or a colon there may be a verb that the list lacks, except after "Of"."""
    words = re.findall(r"[A-Za-z']+", sentence)
    if sentence.startswith(("At most", "At least")) or VERBS & {word.lower() for word in words[1:]}:
        return False
    return ":" not in sentence and (words[0] == "Of" or "," not in sentence and ";" not in sentence) and len(words) <= MOST_WORDS


def phrases(whole):
    for match in PHRASE.finditer(whole):
        if is_phrase(match.group()):
            yield match.start(), match.group(), "this is no sentence; name the thing, the verb and the object"


def subjects(whole):
    """Relative clauses with two finite verbs: the second one's subject is the clause. After "what" a noun may look like a verb."""
    for match in CLAUSE.finditer(whole):
        person, words = match.group(1).startswith("who"), match.group(2).split()
        verbs = [i for i, word in enumerate(words) if word in FINITE or word.endswith("s") and word in VERBS]
        for i in verbs[1:]:
            if words[i - 1] not in OPENERS | (set() if person else {"it"}) and (person or words[i] in FINITE):
                yield match.start(), match.group().lstrip(" ,;:"), "a clause stands for the subject; name it"
                break


def subjunctives(whole):
    for match in SUBJUNCTIVE.finditer(whole):
        yield match.start(), match.group(), "write 'was' for a fact"


def faults(path, kinds=(relatives, phrases, subjects, subjunctives)):
    for run in texts(path):
        whole, starts = joined_text(run)
        for kind in kinds:
            for at, text, advice in kind(whole):
                line = max((begin, number) for begin, number in starts if begin <= at)[1]
                yield line, text[:60], advice


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    checked = bad = 0
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if name == OWN_TEST:
            continue
        checked += 1
        for line, beginning, advice in faults(path):
            print(f'{name}:{line}: "{beginning}...": {advice}')
            bad += 1
    print(f"{checked} files, {bad} faults")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
