#!/usr/bin/env python3
"""Runs a program whose sockets the kernel refuses an option: refuse.py filter|buffer PROGRAM [ARGUMENT...]

`filter`: SO_ATTACH_FILTER, as where it is longer than net.core.optmem_max allows. `buffer`: SO_RCVBUF, so that a program
without CAP_NET_ADMIN has net.core.rmem_default, whatever net.core.rmem_max would allow here. A filter of system calls
(seccomp(2)) answers setsockopt() with ENOMEM.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
MODE_FILTER = 2
SETSOCKOPT = {"x86_64": 54, "aarch64": 208}[platform.machine()]
OPTIONS = {"filter": 26, "buffer": 8}
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
# struct seccomp_data: the call's number at 0, its third argument, the option, at 32.


def main():
    program = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 3, SETSOCKOPT), (LOAD, 0, 0, 32), (JUMP_IF_EQUAL, 0, 1, OPTIONS[sys.argv[1]]),
               (RETURN, 0, 0, ERRNO | errno.ENOMEM), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in program))
    head = ctypes.create_string_buffer(struct.pack("H6xP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, head, 0, 0):
        sys.exit(f"the kernel takes no filter of system calls: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
