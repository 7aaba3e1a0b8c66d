#!/usr/bin/env python3
"""Carries frames between two interfaces until it is killed: relay.py INTERFACE INTERFACE

Stands in for a bridge, which keeps frames for its members' own addresses to itself: a tap device has the address of the
DPDK port behind it.
"""

import select
import socket
import sys

ETH_P_ALL = 3
PACKET_OUTGOING = 4


def opened(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    s.bind((interface, ETH_P_ALL))
    return s


def main():
    a, b = (opened(name) for name in sys.argv[1:3])
    print("relaying", flush=True)
    while True:
        for source in select.select([a, b], [], [])[0]:
            frame, address = source.recvfrom(65536)
            if address[2] != PACKET_OUTGOING:
                (b if source is a else a).send(frame)


if __name__ == "__main__":
    main()
