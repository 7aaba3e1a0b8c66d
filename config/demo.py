#!/usr/bin/env python3
"""The demo's runs and its table: demo.py PATH_OF_UROCE_PERF. Called by demo.sh after the build."""

import sys
import time

import pair

VERBS = (("WRITE", "write"), ("READ", "read"), ("SEND", "send"), ("FETCH_ADD", "atomic"))
SECONDS = "1"


def say(text):
    print(f"== {text}", flush=True)


def verify(ends):
    """Moves real data with each verb and compares every byte."""
    for name, verb in VERBS:
        size = [] if verb == "atomic" else ["-s", "65536"]
        ends.run(f"{verb}_bw", "--verify", "-n", "2000", *size)
        say(f"verified {name}: " + ("2000 operations" if verb == "atomic" else "2000 messages of 64 KiB, every byte"))


def measure(ends, name, verb):
    """One row of the table."""
    row = [name]
    if verb == "atomic":
        row.append("-")
    else:
        row.append(f"{ends.run(f'{verb}_bw', '-D', SECONDS, '-s', '65536', '-m', '4096', '--report_gbits')['BW_average']:.1f}")
    small = [] if verb == "atomic" else ["-s", "8"]
    row.append(f"{ends.run(f'{verb}_bw', '-D', SECONDS, *small)['MsgRate']:.2f}")
    latency = ends.run(f"{verb}_lat", "-n", "100000", *small)
    row += [f"{latency[key]:.2f}" for key in ("t_typical", "percentile_99")]
    say(f"measured {name}")
    return row


def main():
    begin = time.monotonic()
    with pair.Pair(sys.argv[1]) as ends:
        say(f"{ends}")
        try:
            verify(ends)
            rows = [measure(ends, name, verb) for name, verb in VERBS]
        except pair.RunError as e:
            sys.exit(f"error: the demo's run failed: {e}")
    head = ["", "64 KiB, Gb/s", "8 B, M msg/s", "8 B latency, us", "99 %, us"]
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    print()
    for row in [head, *rows]:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
    print(f"\n{ends}; {pair.cpu_model()}; path MTU 4096; latency is half a round trip; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
