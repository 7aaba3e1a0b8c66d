#!/usr/bin/env python3
"""Lets tshark and zlib, which share no code with us, and our own parser read the frames that we encode.

Usage: tshark_test.py WRITE_FRAMES READ_FRAMES
"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

FIELDS = {
    "opcode": "infiniband.bth.opcode",
    "vlan": "vlan.id",
    "destqp": "infiniband.bth.destqp",
    "psn": "infiniband.bth.psn",
    "pkey": "infiniband.bth.p_key",
    "pad": "infiniband.bth.padcnt",
    "se": "infiniband.bth.se",
    "ack_req": "infiniband.bth.a",
    "va": "infiniband.reth.va",
    "rkey": "infiniband.reth.r_key",
    "length": "infiniband.reth.dmalen",
    "swap": "infiniband.atomiceth.swapdt",
    "compare": "infiniband.atomiceth.cmpdt",
    "syndrome": "infiniband.aeth.syndrome",
    "msn": "infiniband.aeth.msn",
    "original": "infiniband.atomicacketh.origremdt",
    "imm": "infiniband.immdt",
    "ieth": "infiniband.ieth",
    "qkey": "infiniband.deth.q_key",
    "srcqp": "infiniband.deth.srcqp",
    "icrc": "infiniband.invariant.crc",
}
# Shown as bytes, so in hexadecimal without a prefix.
TRUTHS = {"False": 0, "True": 1}  # Wireshark 4.2 and later; others have 0 and 1
BYTES = ("imm", "ieth")
EXTRA = ["frame.number", "udp.length", "ip.checksum.status", "ip.version", "ipv6.version", "_ws.malformed"]
# FLUSH, ATOMIC_WRITE, CNP, HELLO, SACK and all of XRC: tshark 4.0 shows no more of them.
BTH_ALONE = (0x1C, 0x1D, 0x81, 0xC0, 0xC1, *range(0xA0, 0xBE))
BTH = ("opcode", "destqp", "psn", "pkey", "pad", "se", "ack_req")
# Fields that both read from every frame.
PARSED = ("opcode", "destqp", "psn", "pad")
# Bytes from the IP header on that the parser may ignore: neither the ICRC nor IPv4's checksum counts them.
MAY_CHANGE = {4: "26,27,32", 6: "0,1,2,3,7,46,47,52"}


def read_with_tshark(capture):
    """One dictionary of numbers for each frame, by our names, and the EXTRA columns as text."""
    columns = list(FIELDS.values()) + EXTRA
    command = ["tshark", "-n", "-r", str(capture), "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=f"]
    for column in columns:
        command += ["-e", column]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if run.returncode != 0:
        sys.exit(f"tshark failed: {run.stderr}")
    for line in run.stdout.splitlines():
        values = dict(zip(columns, line.split("\t")))
        numbers = {}
        for key, column in FIELDS.items():
            text = values[column]
            if text != "":
                numbers[key] = int(text, 16) if key in BYTES else TRUTHS[text] if text in TRUTHS else int(text, 0)
        yield numbers, {column: values[column] for column in EXTRA}


def read_with_parser(program, capture):
    """A dictionary of words for each frame, as READ_FRAMES prints them."""
    run = subprocess.run([program, capture], capture_output=True, text=True, check=True, timeout=60)
    return [dict(word.split("=") for word in line.split()) for line in run.stdout.splitlines()]


def faults_of_parser(read, want, got, version, udp_length):
    """How the parser's words differ from what was sent, `want`, and what tshark saw, `got`."""
    if "drop" in read:
        return [f"our parser drops it: {read['drop']}"]
    expected = {key: got[key] for key in PARSED} | {"icrc": want["icrc"], "udp_length": int(udp_length)}
    faults = [f"{key}: our parser's {read[key]}, tshark's {value:#x}" for key, value in expected.items()
              if int(read[key], 16) != value]
    if read["passes"] != MAY_CHANGE[version]:
        faults.append(f"our parser accepts a change of the bytes {read['passes']}, not of {MAY_CHANGE[version]} alone")
    return faults


def icrc_by_zlib(frame):
    """The invariant CRC of annex A17.3.3, as the number that tshark shows."""
    l3 = bytearray(frame[18 if frame[12:14] == b"\x81\x00" else 14 : -4])
    ones = [1, 8, 10, 11, 26, 27, 32] if l3[0] >> 4 == 4 else [1, 2, 3, 7, 46, 47, 52]
    if l3[0] >> 4 == 6:
        l3[0] |= 0x0F
    for i in ones:
        l3[i] = 0xFF
    return int.from_bytes(zlib.crc32(b"\xff" * 8 + l3).to_bytes(4, "little"), "big")


def srq_of(frame):
    """The queue that an XRC request names, in the four bytes that follow the BTH (annex A14)."""
    l3 = 18 if frame[12:14] == b"\x81\x00" else 14
    bth = l3 + (20 if frame[l3] >> 4 == 4 else 40) + 8
    return int.from_bytes(frame[bth + 13 : bth + 16], "big")


def frames_of(capture):
    data = capture.read_bytes()
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def main():
    faults = []
    with tempfile.TemporaryDirectory() as directory:
        capture = pathlib.Path(directory) / "frames.pcap"
        expectations = pathlib.Path(directory) / "expectations"
        subprocess.run([sys.argv[1], capture, expectations], check=True, timeout=60)
        expected = []
        for line in expectations.read_text().splitlines():
            expected.append({key: int(value, 16) for key, value in (word.split("=") for word in line.split())})
        seen = list(read_with_tshark(capture))
        parsed = read_with_parser(sys.argv[2], capture)
        frames = list(frames_of(capture))
    if not len(expected) == len(seen) == len(parsed) == len(frames) > 0:
        sys.exit(f"we wrote {len(expected)} frames, the capture holds {len(frames)}, tshark read {len(seen)}, our parser {len(parsed)}")

    for want, (got, extra), read, frame in zip(expected, seen, parsed, frames):
        where = f"frame {extra['frame.number']} (opcode {want['opcode']:#04x})"
        version = want.pop("ip_version")
        vlan = want.pop("vlan")
        if got.pop("vlan", 0) != vlan:
            faults.append(f"{where}: VLAN is not {vlan}")
        if extra["ip.version" if version == 4 else "ipv6.version"] != str(version):
            faults.append(f"{where}: not IPv{version}")
        if version == 4 and extra["ip.checksum.status"] != "1":
            faults.append(f"{where}: the IPv4 checksum is not good")
        if extra["_ws.malformed"]:
            faults.append(f"{where}: malformed")
        if icrc_by_zlib(frame) != want["icrc"]:
            faults.append(f"{where}: zlib's ICRC is {icrc_by_zlib(frame):#010x}, ours {want['icrc']:#010x}")
        faults += [f"{where}: {fault}" for fault in faults_of_parser(read, want, got, version, extra["udp.length"])]
        if want["opcode"] in BTH_ALONE:
            if want.get("srq", srq_of(frame)) != srq_of(frame):
                faults.append(f"{where}: srq: ours {want['srq']}, in the frame {srq_of(frame)}")
            want = {key: value for key, value in want.items() if key in BTH}
            got = {key: value for key, value in got.items() if key in BTH}
        if got != want:
            keys = sorted(k for k in want.keys() | got.keys() if want.get(k) != got.get(k))
            faults += [f"{where}: {key}: ours {want.get(key)}, tshark's {got.get(key)}" for key in keys]

    print("\n".join(faults[:40]))
    sys.exit(f"{len(faults)} differences in {len(frames)} frames" if faults else 0)


if __name__ == "__main__":
    main()
