"""Filters of system calls for the programs of tests (seccomp(2)): classic BPF over struct seccomp_data."""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, JUMP_IF_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def run(program, command):
    """Becomes the command, whose system calls go through the program: rows of code, jump if true, jump if false, value."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in program))
    head = ctypes.create_string_buffer(struct.pack("H6xP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, head, 0, 0):
        sys.exit(f"the kernel takes no filter of system calls: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)
