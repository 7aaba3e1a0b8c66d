"""Text as manual pages (groff_man(7)) have it."""


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    return "\\&" + text if text.startswith((".", "'")) else text


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def italic(text):
    return f"\\fI{escape(text)}\\fR"


def quote(text):
    return '"' + text.replace('"', '\\(dq') + '"'


def title(name, section, version):
    # No date: two builds of the same sources make the same pages.
    return [f".TH {quote(escape(name.upper()))} {section} \"\" {quote('uroce ' + version)} \"uroce\""]


def heading(text):
    return [f".SH {quote(text)}"]


def paragraphs(lines):
    """Lines of text; an empty line separates paragraphs, and lines that begin with a space stay as they are."""
    out, literal = [], False
    for line in lines:
        if line.startswith(" ") != literal:
            literal = not literal
            out += [".PP", ".nf"] if literal else [".fi"]
        if line:
            out.append(escape(line))
        elif not literal:
            out.append(".PP")
    if literal:
        out.append(".fi")
    # One between two paragraphs, and none before the first or after the last.
    return [line for i, line in enumerate(out)
            if line != ".PP" or (0 < i < len(out) - 1 and out[i + 1] != ".PP" and any(o != ".PP" for o in out[:i]))]


def literal(lines):
    return [".nf", *map(escape, lines), ".fi"]
