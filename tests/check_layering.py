#!/usr/bin/env python3
"""Checks which folder includes which, that nothing includes itself in a circle, and that lib/ stays free of DPDK.

Usage: check_layering.py SOURCE_ROOT

A file and its header are one unit: foo.h, foo.cc and foo_impl.h. Units form no cycle, and folders form none.
lib/README.md draws the graph of the folders; the table below it has the same edges as ALLOWED.
"""

import collections
import pathlib
import re
import sys

# The folders that the files of a folder may include besides their own and <uroce/...>. Only edges that are used stand here.
ALLOWED = {
    "base": (),
    "cgroup": (),
    "compat": (),
    "ending": ("base",),
    "hugepages": (),
    "netlink": (),
    "privilege": (),
    "wire": ("base",),
    "net": ("base", "wire"),
    "faults": ("base", "message", "net", "wire"),
    "memory": ("base",),
    "queues": ("base",),
    "settings": ("wire",),
    "transport": ("base", "memory", "queues", "settings", "wire"),
    "record": ("base", "memory", "queues", "settings", "transport", "wire"),
    "control": ("base", "memory", "queues", "settings", "transport", "wire"),
    "cm": ("base", "control", "message", "net", "queues", "transport"),
    "message": ("base",),
    "metrics": ("message",),
    "nldev": (),
    "service": ("base", "cgroup", "cm", "control", "message", "net", "queues", "transport"),
    "sharing": ("base",),
    "client": ("base", "cm", "control", "message", "queues", "sharing"),
    "ping": (),
    "validate": ("base",),
    "dropin/common": ("base",),
    "dropin/ibverbs": ("base", "dropin/common", "sharing", "validate"),
    "dropin/rdmacm": ("base", "dropin/common", "message"),
    "dropin/rsocket": ("base", "dropin/common", "dropin/rdmacm"),
    "dropin/sysfs": (),
    "pmd_glue": (
        "base",
        "client",
        "cm",
        "control",
        "faults",
        "hugepages",
        "message",
        "net",
        "netlink",
        "record",
        "service",
        "settings",
        "transport",
        "wire",
    ),
    "apps/arguments": ("settings",),
    "apps/nvmf": ("apps/arguments", "base", "ending", "pmd_glue", "privilege", "settings"),
    "apps/perf": ("apps/arguments", "base", "cgroup", "ending", "pmd_glue", "settings"),
    "apps/uroce": (
        "apps/arguments",
        "client",
        "ending",
        "faults",
        "hugepages",
        "message",
        "metrics",
        "net",
        "netlink",
        "ping",
        "record",
        "wire",
    ),
    "apps/uroce-run": ("client", "message", "nldev", "validate"),
    "apps/uroced": (
        "apps/arguments",
        "base",
        "cgroup",
        "cm",
        "hugepages",
        "message",
        "metrics",
        "net",
        "ping",
        "pmd_glue",
        "privilege",
        "service",
        "settings",
        "transport",
    ),
}

# Sub-folders, and the siblings that each may include. All of them may also include whatever their folder may.
SUBFOLDERS = {
    "cm/ib": (),
    "wire/crc": (),
    "transport/core": (),
    "transport/loss": ("transport/core",),
    "transport/congestion": ("transport/core",),
    "transport/qp": ("transport/congestion", "transport/core", "transport/loss"),
    "transport/rc": ("transport/congestion", "transport/core", "transport/loss", "transport/qp"),
    "transport/datagram": ("transport/congestion", "transport/core", "transport/loss", "transport/qp"),
    "transport/engine": (
        "transport/congestion",
        "transport/core",
        "transport/datagram",
        "transport/loss",
        "transport/qp",
        "transport/rc",
    ),
}

# Time, randomness and frames are arguments here, so that a run can be replayed. Paths begin with one of these.
PURE = (
    "lib/base/",
    "lib/wire/",
    "lib/net/",
    "lib/memory/",
    "lib/queues/",
    "lib/transport/",
    "lib/cm/ib/",
    "lib/cm/rdma_header.",
)
IMPURE = re.compile(r"steady_clock::now|system_clock|clock_gettime|random_device|<sys/socket\.h>|<x86intrin\.h>|__rdtsc")
DPDK = re.compile(r"rte_|dpdk/")
# CLI11 costs seconds wherever it is included.
CLI11 = re.compile(r"CLI/")
CLI11_HOME = pathlib.Path("apps/arguments/program.cc")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAMESPACE = re.compile(r"^namespace uroce::([\w:]+) \{")
TYPE = re.compile(r"^\s*(?:class|struct|enum class|using)\s+(?:alignas\(\w+\)\s+)?(\w+)")
# In a row of the glossary: `namespace::Class`.
GLOSSARY_TYPE = re.compile(r"`([\w:]+)::([A-Z]\w*)`")
DOCUMENTED_PATH = re.compile(r"`((?:lib|pmd_glue|apps|include|tests|config)/[\w./-]*)`")
# A row of the README's table: the folder, its description, what it includes.
README_ROW = re.compile(r"^\| `(?:lib/)?([\w/-]+?)/` \|[^|]*\| ([^|]*) \|")

Fault = collections.namedtuple("Fault", "path line text")
Include = collections.namedtuple("Include", "source target line")


def folder_of(path):
    """The folder that a file belongs to, as ALLOWED and SUBFOLDERS name it; None for a file directly in lib/ or apps/."""
    top, inner = path.parts[0], path.parts[1:-1]
    if top == "include":
        return "public"
    if top == "pmd_glue":
        return "pmd_glue"
    if not inner:
        return None
    if top == "apps":
        return f"apps/{inner[0]}"
    return "/".join(inner[:2])


def unit_of(path):
    """foo.h, foo.cc and foo_impl.h are one unit: the second implements the first, and the third is private to both."""
    return str(path.parent / path.stem.removesuffix("_impl"))


class Tree:
    """The sources below a root, and what each includes of the others."""

    def __init__(self, root):
        self.root = root
        tops = ("include", "lib", "pmd_glue", "apps")
        found = [p for top in tops for p in sorted((root / top).rglob("*")) if p.suffix in (".h", ".cc")]
        self.files = [p.relative_to(root) for p in found]
        self.known = set(self.files)
        self.lines = {path: (root / path).read_text().splitlines() for path in self.files}
        self.includes = [include for path in self.files for include in self.includes_of(path)]

    def includes_of(self, path):
        for number, line in enumerate(self.lines[path], 1):
            match = INCLUDE.match(line)
            target = match and self.find(path, match.group(2))
            if target and target != path:
                yield Include(path, target, number)

    def find(self, source, header):
        """The file that an #include names, as the compiler looks for it; None when it is none of ours."""
        for place in (source.parent, *map(pathlib.Path, ("lib", "include", ".", "apps"))):
            if place / header in self.known:
                return place / header
        return None


def line_faults(tree):
    """Faults of single lines."""
    for path in tree.files:
        pure = str(path).startswith(PURE)
        for number, line in enumerate(tree.lines[path], 1):
            if pure and IMPURE.search(line):
                yield Fault(path, number, f"'{line.strip()}' in code that is replayed; take it as an argument")
            match = INCLUDE.match(line)
            if match and DPDK.match(match.group(2)) and path.parts[0] != "pmd_glue":
                yield Fault(path, number, f"<{match.group(2)}>: only pmd_glue includes DPDK; put what needs it there")
            if match and CLI11.match(match.group(2)) and path != CLI11_HOME:
                yield Fault(path, number, f"<{match.group(2)}>: only {CLI11_HOME} includes CLI11; declare options by its header")
            if match and path.parts[0] == "include" and match.group(1) == '"':
                text = f'"{match.group(2)}": a public header includes <uroce/...> and the standard library; no others'
                yield Fault(path, number, text)


def may_include(source, target, allowed, subfolders):
    if source == target or target == "public":
        return True
    parent = source.rpartition("/")[0]
    if source in subfolders:
        siblings = target.startswith(parent + "/")
        return target in subfolders[source] if siblings else may_include(parent, target, allowed, subfolders)
    # A folder that may include transport may include each of its sub-folders.
    return target in allowed.get(source, ()) or target.rpartition("/")[0] in (*allowed.get(source, ()), source)


def edge_faults(tree, allowed, subfolders):
    """Includes of one folder by another that is not in the tables, and edges of the tables that no file uses."""
    unknown = set()
    for path in tree.files:
        folder = folder_of(path)
        if folder is None:
            yield Fault(path, 1, "belongs to no folder; move it into one")
        elif folder not in allowed and folder not in subfolders and folder != "public" and folder not in unknown:
            unknown.add(folder)
            text = f"{folder} is a new folder; say in ALLOWED or SUBFOLDERS of check_layering.py what it may include"
            yield Fault(path, 1, text)
    used = set()
    for source, target, line in tree.includes:
        a, b = folder_of(source), folder_of(target)
        used.update({(a, b), (a, (b or "").rpartition("/")[0]), ((a or "").rpartition("/")[0], b)})
        if a in unknown or b in unknown or a is None or may_include(a, b, allowed, subfolders):
            continue
        what = f"{a} includes {target}, but {a} may not include {b}"
        yield Fault(source, line, f"{what}; turn it round, or add the edge to check_layering.py and lib/README.md")
    for folder, targets in allowed.items():
        for target in targets:
            if (folder, target) not in used:
                text = f"ALLOWED lets {folder} include {target}, and no file does; remove it there and in lib/README.md"
                yield Fault(pathlib.Path("tests/check_layering.py"), 1, text)


def shortest_cycle(graph):
    """A shortest cycle among all of a graph {node: set of nodes} as a list of nodes, or None."""
    best = None
    for start in sorted(graph):
        came_from = {start: None}
        queue = collections.deque([start])
        while queue:
            node = queue.popleft()
            if start in graph.get(node, ()):
                way = []
                while node is not None:
                    way.append(node)
                    node = came_from[node]
                way.reverse()
                best = way if best is None or len(way) < len(best) else best
                break
            for following in sorted(graph.get(node, ())):
                if following not in came_from:
                    came_from[following] = node
                    queue.append(following)
    return best


def cycles(graph):
    """Cycles, until the graph has none without them; each as a list of nodes."""
    rest = {node: set(targets) for node, targets in graph.items()}
    while cycle := shortest_cycle(rest):
        yield cycle
        rest[cycle[0]].discard(cycle[1])


def cycle_faults(tree, name_of, what, advice):
    """Cycles of the includes between what `name_of` calls the files."""
    graph, where = collections.defaultdict(set), {}
    for include in tree.includes:
        a, b = name_of(include.source), name_of(include.target)
        if a and b and a != b:
            graph[a].add(b)
            where.setdefault((a, b), include)
    for cycle in cycles(graph):
        around = " -> ".join([*cycle, cycle[0]])
        include = where[cycle[0], cycle[1]]
        others = [where[a, b] for a, b in zip(cycle[1:], [*cycle[2:], cycle[0]])]
        back = ", ".join(f"{other.source}:{other.line}" for other in others)
        yield Fault(include.source, include.line, f"{what} {around} (the way back: {back}); {advice}")


def table_faults(allowed, subfolders):
    graph = {folder: set(targets) for folder, targets in {**allowed, **subfolders}.items()}
    for cycle in cycles(graph):
        around = " -> ".join([*cycle, cycle[0]])
        text = f"the tables allow the cycle {around}; remove one of its edges"
        yield Fault(pathlib.Path("tests/check_layering.py"), 1, text)


def readme_faults(root, allowed):
    """The table of lib/README.md has a row for each folder, with the edges of ALLOWED."""
    path = pathlib.Path("lib/README.md")
    rows = {}
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = README_ROW.match(line)
        if match:
            targets = {word.strip(" `") for word in match.group(2).split(",")} - {"", "nothing"}
            rows[match.group(1)] = (number, targets)
    for folder, targets in allowed.items():
        number, said = rows.get(folder, (1, None))
        if said is None:
            yield Fault(path, number, f"no row for {folder}; add one to the table of folders")
        elif said != set(targets):
            right = ", ".join(sorted(targets)) or "nothing"
            yield Fault(path, number, f"the row of {folder} says that it includes other folders; write: {right}")


def glossary_faults(tree):
    """Each file that lib/README.md names exists, and each class of its glossary is in the namespace that it says."""
    path = pathlib.Path("lib/README.md")
    types = set()
    for source in tree.files:
        spaces = [match.group(1) for match in map(NAMESPACE.match, tree.lines[source]) if match]
        names = [match.group(1) for match in map(TYPE.match, tree.lines[source]) if match]
        types.update((space, name) for space in spaces for name in names)
    for number, line in enumerate((tree.root / path).read_text().splitlines(), 1):
        for named in DOCUMENTED_PATH.findall(line):
            if not (tree.root / named).exists():
                yield Fault(path, number, f"there is no {named}; name the file as it is called now")
        for space, name in GLOSSARY_TYPE.findall(line) if line.startswith("|") else ():
            if not any(name == known and f"::{inner}".endswith(f"::{space}") for inner, known in types):
                yield Fault(path, number, f"there is no {space}::{name}; write the glossary's row anew")


def faults(root, allowed=None, subfolders=None):
    allowed = ALLOWED if allowed is None else allowed
    subfolders = SUBFOLDERS if subfolders is None else subfolders
    tree = Tree(root)
    if not tree.files:
        sys.exit(f"error: no sources under {root}; give the source root")
    advice = "declare one of the classes forward, or move what both need into a third file"
    yield from line_faults(tree)
    yield from edge_faults(tree, allowed, subfolders)
    yield from cycle_faults(tree, unit_of, "files include each other:", advice)
    yield from cycle_faults(tree, folder_of, "folders include each other:", "move what both need below both")
    yield from table_faults(allowed, subfolders)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    found = [*faults(root), *readme_faults(root, ALLOWED), *glossary_faults(Tree(root))]
    for path, line, text in found:
        print(f"{path}:{line}: {text}")
    print(f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
