#!/usr/bin/env python3
"""Prints a C++ source that has each file's bytes as a span. A name without a file gets an empty one.

Usage: embed.py NAME=[FILE]...
"""

import pathlib
import sys


def main():
    print('#include "pmd_glue/xdp/objects.h"\n\nnamespace uroce::glue::xdp {\n')
    for word in sys.argv[1:]:
        name, path = word.split("=", 1)
        value = ""
        if path:
            value = f" = {name}Bytes"
            print(f"static constexpr unsigned char {name}Bytes[] = {{{','.join(map(str, pathlib.Path(path).read_bytes()))}}};")
        print(f"const std::span<const unsigned char> {name}{value};\n")
    print("}  // namespace uroce::glue::xdp")


if __name__ == "__main__":
    main()
