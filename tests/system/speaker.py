"""The daemon's protocol, spoken by hand: what no library of ours would send."""

import contextlib
import os
import re
import socket
import struct

import harness
from harness import SLOW

# The messages of lib/message, spoken by hand.
HELLO, OPEN, CREATE_PD, REGISTER, CREATE_CHANNEL, CREATE_CQ, CREATE_SRQ, CREATE_QP, MODIFY = range(1, 10)
CREATE_AH = 11
DESTROY, COUNTERS, LIST_CLIENTS, LIST_OBJECTS, LIST_ENGINES = 14, 15, 17, 18, 32
CM_CREATE_CHANNEL, CM_CREATE_ID, CM_BIND, CM_RESOLVE, CM_CONNECT, CM_ACCEPT, CM_DISCONNECT = 64, 67, 70, 71, 74, 76, 78
CLOSE = 33
PROVE_RAW_PACKETS = 44
PREPARE_MEMORY, ADD_SEGMENTS, ABANDON_MEMORY = 36, 37, 38
PROTOCOL, OLDEST_PROTOCOL, QUEUE_ABI = (
    int(re.search(rf"{name} = (\d+);", (harness.SOURCE / "lib" / path).read_text())[1])
    for name, path in (("kProtocol", "message/protocol.h"), ("kOldestProtocol", "message/protocol.h"), ("kAbiVersion", "queues/layout.h")))
MAGIC = 0x65636F72


def text(value):
    return struct.pack("<I", len(value)) + value


def cq(entries, channel=0, ignore_overrun=False):
    """The message that asks for a completion queue."""
    return struct.pack("<II?", entries, channel, ignore_overrun)


def segment_list(segments):
    return struct.pack("<I", len(segments)) + b"".join(struct.pack("<IQQ", *s) for s in segments)


def qp(pd, cq, kind=2, requests=1):
    """The message that asks for a queue pair, of RC unless `kind` says otherwise."""
    return struct.pack("<IIIIBIIIIIBiBBI", pd, cq, cq, 0, kind, requests, requests, 1, 1, 0, 0, -1, 0, 0, 0)


class Speaker:
    """A raw connection."""

    def __init__(self, path, greet=True, device=b"uroce0"):
        self.connect(path)
        self.start(greet, device)

    @classmethod
    def of(cls, connection, greet=True, device=b"uroce0"):
        """On a connection that somebody has made."""
        one = cls.__new__(cls)
        one.socket = connection
        one.start(greet, device)
        return one

    def connect(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # As programs do, it waits for a place among those that the daemon has not accepted yet. With settimeout() alone the
        # socket would not block, and connect() would fail at once.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(20 * SLOW), 0))
        self.socket.connect(str(path))

    def start(self, greet, device):
        self.socket.settimeout(20 * SLOW)
        if greet:
            assert self.hello()[0] == 0
        if greet and device:
            assert self.call(OPEN, text(device))[0] == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def hello(self, protocol=PROTOCOL, oldest=OLDEST_PROTOCOL, queues=QUEUE_ABI, oldest_queues=QUEUE_ABI):
        """The versions from `oldest` to `protocol` are spoken."""
        body = struct.pack("<III", MAGIC, protocol, queues) + text(b"test")
        if protocol > 22:
            body += struct.pack("<IIQ", oldest, oldest_queues, 0)
        return self.call(HELLO, body)

    def send(self, op, body=b"", fds=(), sequence=1, device=0):
        """`sequence` 0: no reply comes."""
        socket.send_fds(self.socket, [struct.pack("<HII", op, sequence, device) + body], list(fds))

    def packet(self):
        """The next packet and the number of its descriptors, which are closed; None where the daemon has hung up."""
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, 250)
        except ConnectionError:
            return None
        for fd in fds:
            os.close(fd)
        return (data, len(fds)) if data else None

    def receive(self):
        """Error and text and body of the next reply, or None where the daemon has hung up."""
        packet = self.packet()
        if packet is None:
            return None
        data = packet[0]
        _, error, length = struct.unpack_from("<IiI", data)
        words = data[12:12 + length].decode()
        chunks, = struct.unpack_from("<I", data, 12 + length)
        return error, words, data[16 + length + 12 * chunks:]

    def call(self, op, body=b"", fds=(), device=0):
        try:
            self.send(op, body, fds, device=device)
        except ConnectionError:
            return None
        return self.receive()

    def handle(self, op, body=b"", fds=(), device=0):
        error, words, reply = self.call(op, body, fds, device)
        assert error == 0, words
        return struct.unpack_from("<I", reply)[0]

    def register(self, pd, fds, length=4096, segments=((0, 0, 4096),), access=7, address=0, prepared=False):
        body = struct.pack("<IQQQI", pd, 0, length, address, access) + segment_list(segments)
        return self.call(REGISTER, body + struct.pack("<?", prepared), fds)


def memory(size):
    fd = os.memfd_create("test", 0)
    os.ftruncate(fd, size)
    return fd


@contextlib.contextmanager
def user(uid):
    """Connections made inside are another user's: the kernel notes the effective uid (SO_PEERCRED)."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
