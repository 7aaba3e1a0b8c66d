"""Frames as packet sockets with PACKET_VNET_HDR pass them (packet(7), struct virtio_net_hdr of linux/virtio_net.h), super-frames of
UDP datagrams among them, for relays that do something to single datagrams."""

import dataclasses
import socket
import struct

SOL_PACKET = 263
PACKET_VNET_HDR = 15
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3
PACKET_OUTGOING = 4
VNET = struct.Struct("=BBHHHH")  # flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
GSO_UDP_L4 = 5
NEEDS_CSUM = 1
LONGEST = 1 << 17


def opened(interface):
    """A socket for whole frames of an interface, each behind a virtio header."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
    s.bind((interface, ETH_P_ALL))
    return s


def word(data, at):
    return struct.unpack_from(">H", data, at)[0]


def ones_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@dataclasses.dataclass
class SuperFrame:
    """Datagrams of one flow, which are bytes behind the UDP header, and the headers before all of them. `first` is the number of the
    first one among those that once came together."""

    headers: bytes
    segments: list
    first: int = 0

    @staticmethod
    def of(message):
        """Nothing for a message of one frame."""
        _, kind, _, size, start, _ = VNET.unpack_from(message)
        if kind != GSO_UDP_L4:
            return None
        frame = message[VNET.size:]
        payload = frame[start + 8:]
        return SuperFrame(frame[:start + 8], [payload[at:at + size] for at in range(0, len(payload), size)])

    def part(self, begin, end):
        return SuperFrame(self.headers, self.segments[begin:end], self.first + begin)

    def message(self):
        """Its bytes for a socket; those of an ordinary frame, without UDP checksum, if there is one datagram."""
        headers, payload = bytearray(self.headers), b"".join(self.segments)
        udp = len(headers) - 8
        ipv4 = word(headers, 12) == 0x0800
        struct.pack_into(">HH", headers, udp + 4, 8 + len(payload), 0)
        if ipv4:
            struct.pack_into(">HH", headers, 16, 28 + len(payload), (word(headers, 18) + self.first) & 0xFFFF)
            struct.pack_into(">H", headers, 24, 0)
            struct.pack_into(">H", headers, 24, 0xFFFF ^ ones_sum(bytes(headers[14:34])))
        else:
            struct.pack_into(">H", headers, 18, 8 + len(payload))
        if len(self.segments) == 1:
            return VNET.pack(0, 0, 0, 0, 0, 0) + headers + payload
        addresses = headers[26:34] if ipv4 else headers[22:54]
        struct.pack_into(">H", headers, udp + 6, ones_sum(bytes(addresses) + struct.pack(">HH", 17, 8 + len(payload))))
        return VNET.pack(NEEDS_CSUM, GSO_UDP_L4, len(headers), len(self.segments[0]), udp, 6) + headers + payload
