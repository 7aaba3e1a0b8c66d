#!/usr/bin/env python3
"""Sends Ethernet frames on a network interface, each given in hexadecimal.

Usage: frames.py INTERFACE FRAME...
"""

import socket
import sys

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind((sys.argv[1], 0))
    for frame in sys.argv[2:]:
        raw.send(bytes.fromhex(frame))
