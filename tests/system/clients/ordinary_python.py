#!/usr/bin/env python3
"""Registers memory of Python's objects by ctypes, ends the regions, and looks at what the objects and new ones hold then."""

import ctypes
import gc
import mmap
import sys

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
POINTER = ctypes.c_void_p
for name, result, arguments in (
        ("ibv_get_device_list", ctypes.POINTER(POINTER), [POINTER]),
        ("ibv_open_device", POINTER, [POINTER]),
        ("ibv_alloc_pd", POINTER, [POINTER]),
        ("ibv_reg_mr", POINTER, [POINTER, POINTER, ctypes.c_size_t, ctypes.c_int]),
        ("ibv_dereg_mr", ctypes.c_int, [POINTER])):
    call = getattr(verbs, name)
    call.restype, call.argtypes = result, arguments
LOCAL_WRITE = 1
ROUNDS = 50
PAGE = mmap.PAGESIZE
SIZES = (PAGE, 100_000, 1 << 20)
pd = verbs.ibv_alloc_pd(verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0]))
wrong = []


def expect(what, found, wanted):
    if found != wanted:
        wrong.append(f"{what}: expected {wanted}, found {found}")


def register_and_deregister(thing):
    """The address and the length of an object with a buffer, which is registered no more."""
    view = (ctypes.c_char * len(thing)).from_buffer(thing)
    address, length = ctypes.addressof(view), len(thing)
    mr = verbs.ibv_reg_mr(pd, address, length, LOCAL_WRITE)
    if not mr or verbs.ibv_dereg_mr(mr) != 0:
        sys.exit(f"expected {length} bytes to be registered: error {ctypes.get_errno()}")
    return address, length


def not_ordinary(address, length):
    """Mappings of a range that are not private anonymous memory."""
    found = []
    for line in open("/proc/self/maps"):
        bounds, flags, _, _, inode = line.split()[:5]
        first, end = (int(bound, 16) for bound in bounds.split("-"))
        if first < address + length and end > address and (flags[3] != "p" or inode != "0"):
            found.append(line.strip())
    return found


def mappings():
    with mmap.mmap(-1, 16 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = b"\xa5" * len(memory)
        place = register_and_deregister(memory)
        gc.collect()
        expect("a mapping after its region", memory[:] == b"\xa5" * len(memory), True)
        expect("mappings that are not private anonymous memory", not_ordinary(*place), [])
        memory.madvise(mmap.MADV_DONTNEED, PAGE, len(memory) - PAGE)
        expect("bytes that are not zero after MADV_DONTNEED", sum(byte != 0 for byte in memory[PAGE:]), 0)
        expect("the page before", memory[:PAGE], b"\xa5" * PAGE)


def byte_arrays():
    for number in range(ROUNDS):
        size = SIZES[number % len(SIZES)]
        data = bytearray(b"\xa5" * size)
        place = register_and_deregister(data)
        expect("a bytearray after its region", data.count(0xa5), size)
        expect("mappings of a bytearray that are not private anonymous memory", not_ordinary(*place), [])
        del data
        gc.collect()
        expect("zeros in a new bytearray", bytearray(size).count(0), size)


mappings()
byte_arrays()
print("\n".join(wrong[:5]) or "all as expected")
sys.exit(1 if wrong else 0)
