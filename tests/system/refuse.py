#!/usr/bin/env python3
"""Runs a program whose sockets the kernel refuses an option: refuse.py filter|buffer PROGRAM [ARGUMENT...]

`filter`: SO_ATTACH_FILTER, as where it is longer than net.core.optmem_max allows. `buffer`: SO_RCVBUF, so that a program
without CAP_NET_ADMIN has net.core.rmem_default, whatever net.core.rmem_max would allow here. A filter of system calls
(seccomp(2)) answers setsockopt() with ENOMEM.
"""

import errno
import platform
import sys

import seccomp
from seccomp import ALLOW, ERRNO, JUMP_IF_EQUAL, LOAD, RETURN

SETSOCKOPT = {"x86_64": 54, "aarch64": 208}[platform.machine()]
OPTIONS = {"filter": 26, "buffer": 8}
# struct seccomp_data: the call's number at 0, its third argument, the option, at 32.


def main():
    program = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 3, SETSOCKOPT), (LOAD, 0, 0, 32), (JUMP_IF_EQUAL, 0, 1, OPTIONS[sys.argv[1]]),
               (RETURN, 0, 0, ERRNO | errno.ENOMEM), (RETURN, 0, 0, ALLOW)]
    seccomp.run(program, sys.argv[2:])


if __name__ == "__main__":
    main()
