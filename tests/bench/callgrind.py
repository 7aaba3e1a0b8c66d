"""Reads what valgrind's callgrind writes, as instructions by layer of the project and by function.

The format is in valgrind's manual, "Callgrind Format Specification". Files must be written with --compress-strings=no and
--compress-pos=no. The first event is Ir. With --cache-sim=yes DLmr and DLmw follow, the lines of data that no simulated cache had.
"""

import collections
import dataclasses
import re

# A source file's path, wherever the tree was compiled: a compiler cache keeps the paths of another copy.
OURS = re.compile(r"(?:^|/)((?:lib/(?:base|client|memory|queues|record|wire|transport/\w+)|apps/nvmf|include/uroce|tests/\w+)/.*)$")
# The application's stand-in and the network's: not what is measured.
STAND_IN = re.compile(r"^uroce::(bench|test)::|^uroce_counted_run")

LAYERS = ("base", "wire", "queues", "memory", "core", "engine", "qp", "rc", "loss", "congestion", "datagram", "record", "client", "nvmf", "other")
# Shown, but in no budget: code that the processor decides, and the test itself.
OUTSIDE = ("icrc", "libc", "test")


def ours(path):
    """The path below the project's root, or None for files of others."""
    found = OURS.search(path)
    return found and found.group(1)


def layer_of(obj, home, path, function):
    """The layer of instructions that come from `path`, in a function whose own file is `home`, in the file `obj`."""
    if "libisal" in obj:
        return "icrc"
    if "/libc.so" in obj or "/ld-linux" in obj:
        return "libc"
    if STAND_IN.search(function) or (ours(home) or "").startswith("tests/"):
        return "test"
    # Code inlined from the standard library's headers belongs to the function around it.
    found = ours(path) or ours(home)
    if found is None:
        return "other"
    if found.startswith(("lib/wire/icrc", "lib/wire/flow_icrc", "lib/wire/crc/")):
        return "icrc"
    parts = found.split("/")
    return "base" if parts[0] == "include" else parts[2] if parts[1] == "transport" else parts[1]


@dataclasses.dataclass
class Costs:
    """Instructions of one run. A difference of two, or a quotient, is one too."""

    layers: collections.Counter
    own: collections.Counter  # by function, without its callees
    inclusive: collections.Counter  # by function; a recursive one counts its callees twice
    missed: collections.Counter  # lines of data by layer
    libc_calls: float  # from our layers

    def each(self, shorter, messages):
        """The cost of one message, where this run had so many more than the shorter one."""

        def part(more, less):
            return collections.Counter({k: (more[k] - less[k]) / messages for k in more.keys() | less.keys()})

        return Costs(part(self.layers, shorter.layers), part(self.own, shorter.own), part(self.inclusive, shorter.inclusive),
                     part(self.missed, shorter.missed), (self.libc_calls - shorter.libc_calls) / messages)

    @property
    def instructions(self):
        """Of the layers that have budgets."""
        return sum(self.layers[layer] for layer in LAYERS)

    @property
    def missed_lines(self):
        return sum(self.missed[layer] for layer in LAYERS)


def read(path):
    """The costs in a file of callgrind."""
    costs = Costs(collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter(), 0)
    misses = []  # the columns behind the line's number
    obj = home = file = function = called_obj = called = ""
    call_comes = False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.rstrip("\n")
            if line[:1].isdigit():
                counts = line.split()[1:]
                count = int(counts[0])
                costs.inclusive[function] += count if not call_comes or called != function else 0
                if not call_comes:
                    costs.own[function] += count
                    layer = layer_of(obj, home, file, function)
                    costs.layers[layer] += count
                    costs.missed[layer] += sum(int(counts[at]) for at in misses if at < len(counts))  # zeros at the end are left out
                call_comes = False
                continue
            if line.startswith("events:"):
                misses = [at for at, event in enumerate(line.split()[1:]) if event in ("DLmr", "DLmw")]
            key, _, value = line.partition("=")
            if key == "ob":
                obj = called_obj = value
            elif key == "fl":
                home = file = value
            elif key in ("fi", "fe"):
                file = value
            elif key == "fn":
                function, called_obj = value, obj
            elif key == "cob":
                called_obj = value
            elif key == "cfn":
                called = value
            elif key == "calls":
                call_comes = True
                if "/libc.so" in called_obj and layer_of(obj, home, file, function) not in OUTSIDE:
                    costs.libc_calls += int(value.split()[0])
                called_obj = obj
    return costs
