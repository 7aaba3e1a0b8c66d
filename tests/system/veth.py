"""Ports on interfaces that the kernel keeps (net_uroce_kif), on a veth pair between two namespaces: what the tests of them share.

Usage: veth.py INTERFACE FEATURE on|off    switches an offload of an interface of this namespace
"""

import array
import fcntl
import socket
import struct
import subprocess
import sys

import harness
from harness import IDLE, eal

TESTS = (("write_bw", ("-s", "65536", "-n", "200")), ("read_bw", ("-s", "65536", "-n", "200")),
         ("send_bw", ("-s", "65536", "-n", "200")), ("send_bw", ("-s", "100", "-n", "2000", "-q", "5")),
         ("atomic_bw", ("-n", "300")))


def set_feature(interface, name, on):
    """Switches an interface's offload on or off: struct ethtool_sset_info, _gstrings, _sfeatures of linux/ethtool.h."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def call(data):
            buffer = array.array("B", data)
            fcntl.ioctl(control, 0x8946, struct.pack("16sP", interface.encode(), buffer.buffer_info()[0]))
            return buffer.tobytes()
        count = struct.unpack("IIQI", call(struct.pack("IIQI", 0x37, 0, 1 << 4, 0)))[3]
        strings = call(struct.pack("III", 0x1B, 4, count) + bytes(32 * count))[12:]
        index = [strings[i * 32:(i + 1) * 32].rstrip(b"\0").decode() for i in range(count)].index(name)
        words = [0] * (2 * ((count + 31) // 32))
        words[index // 32 * 2:index // 32 * 2 + 2] = [1 << index % 32, (1 << index % 32) if on else 0]
        call(struct.pack(f"II{len(words)}I", 0x3B, len(words) // 2, *words))


class Case(harness.Case):
    def spaces(self, mtu):
        """Two namespaces. The kernel has addresses on d0, which the ports take unless they are given others."""
        spaces = harness.Namespaces(mtu)
        spaces.__enter__()
        self.addCleanup(spaces.__exit__)
        self.give_addresses(spaces.names)
        return spaces.names

    @staticmethod
    def give_addresses(names):
        for number, name in enumerate(names, 1):
            harness.ip("-n", name, "addr", "add", f"192.0.2.{number}/24", "dev", "d0")
            harness.ip("-n", name, "link", "set", "d0", "arp", "on", "up")

    def pair(self, names, test, *args, server=("--interface", "d0"), client=("--interface", "d0"), server_eal=None,
             client_eal=None):
        return self.run_pair(test, server_eal or eal(), client_eal or eal(), *IDLE, "--verify", *args, server_args=server,
                             client_args=client, namespaces=names, address="10.199.0.1")

    def offload(self, name, on):
        """UDP segmentation of the interface d0 in a namespace."""
        done = subprocess.run(["ip", "netns", "exec", name, sys.executable, __file__, "d0",
                               "tx-udp-segmentation", on], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    set_feature(sys.argv[1], sys.argv[2], sys.argv[3] == "on")
