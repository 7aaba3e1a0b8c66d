#!/usr/bin/env python3
"""Runs a program with the system calls that containers have by default: docker_seccomp.py PROGRAM [ARGUMENT...]

The filter (seccomp(2)) refuses with EPERM what Docker's and Kubernetes' default profiles refuse a container without any capability,
on a kernel from 4.8 on. Namespaces are not to be made, and clone3() answers ENOSYS, so that libraries use clone().
"""

import errno
import platform
import sys

import seccomp
from seccomp import ALLOW, ERRNO, JUMP_IF_EQUAL, JUMP_IF_SET, LOAD, RETURN

NAMESPACES = 0x7E020000  # CLONE_NEW* of clone()
CLONE, CLONE3, SOCKET, AF_VSOCK = 56, 435, 41, 40
# The calls, with their numbers on x86-64.
REFUSED = {
    "acct": 163, "add_key": 248, "bpf": 321, "clock_settime": 227, "delete_module": 176, "fanotify_init": 300, "finit_module": 313,
    "fsconfig": 431, "fsmount": 432, "fsopen": 430, "fspick": 433, "get_mempolicy": 239, "init_module": 175, "io_uring_enter": 426,
    "io_uring_register": 427, "io_uring_setup": 425, "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246,
    "keyctl": 250, "lookup_dcookie": 212, "mbind": 237, "migrate_pages": 256, "mount": 165, "mount_setattr": 442, "move_mount": 429,
    "move_pages": 279, "open_by_handle_at": 304, "open_tree": 428, "perf_event_open": 298, "pivot_root": 155, "quotactl": 179,
    "reboot": 169, "request_key": 249, "set_mempolicy": 238, "setdomainname": 171, "sethostname": 170, "setns": 308, "settimeofday": 164,
    "swapoff": 168, "swapon": 167, "sysfs": 139, "syslog": 103, "umount2": 166, "unshare": 272, "userfaultfd": 323, "ustat": 136,
    "vhangup": 153,
}


def program():
    """The filter's instructions. struct seccomp_data has the call's number at 0 and its first argument at 16."""
    refuse = [(RETURN, 0, 0, ERRNO | errno.EPERM)]
    code = [(LOAD, 0, 0, 0)]
    for number in REFUSED.values():
        code += [(JUMP_IF_EQUAL, 0, 1, number), *refuse]
    code += [(JUMP_IF_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    code += [(JUMP_IF_EQUAL, 0, 4, CLONE), (LOAD, 0, 0, 16), (JUMP_IF_SET, 0, 1, NAMESPACES), *refuse, (RETURN, 0, 0, ALLOW)]
    code += [(JUMP_IF_EQUAL, 0, 3, SOCKET), (LOAD, 0, 0, 16), (JUMP_IF_EQUAL, 0, 1, AF_VSOCK), *refuse]
    return [*code, (RETURN, 0, 0, ALLOW)]


def main():
    if platform.machine() != "x86_64":
        sys.exit("the numbers of system calls are those of x86-64")
    seccomp.run(program(), sys.argv[1:])


if __name__ == "__main__":
    main()
