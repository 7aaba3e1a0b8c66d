#!/usr/bin/env python3
"""A program that gets uroce's librdmacm with another libibverbs does not start, and is told why.

Usage: mixed_libraries_test.py LIBRDMACM OTHER_LIBIBVERBS
"""

import os
import subprocess
import sys

SKIPPED = 77


def main():
    librdmacm, other = sys.argv[1:]
    if not os.path.exists(other):
        print(f"{other} is not installed")
        return SKIPPED
    environment = os.environ | {"LD_PRELOAD": f"{other} {librdmacm}"}
    result = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True)
    print(result.stderr, end="")
    wanted = ("libibverbs.so.1: version `UROCE_PRIVATE_1' not found", "required by", "librdmacm.so.1")
    faults = [part for part in wanted if part not in result.stderr]
    for part in faults:
        print(f"error: the loader does not say \"{part}\"")
    if result.returncode == 0:
        print("error: the program started")
    return 1 if faults or result.returncode == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
