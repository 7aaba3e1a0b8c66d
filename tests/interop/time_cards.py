#!/usr/bin/env python3
"""Round-trip times on emulated cards, of uroce by poll-mode drivers beside rxe on the kernel's drivers:
time_cards.py [--rounds N] [MODEL]...

Prints one line for each card and pair of ends: the median of the rounds, the least and the most, in microseconds. Each round
is 200 round trips of 4096 bytes by ibv_rc_pingpong: `polled`, which spins on its completion queue, or `events`, which sleeps.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import cards  # noqa: E402
import harness  # noqa: E402
import rig as rigs  # noqa: E402

TRIPS = 200
PINGPONG = f"ibv_rc_pingpong -s 4096 -n {TRIPS}"
WAYS = {"polled": "", "events": " -e"}


class Rig(cards.CardRig):
    def microseconds(self, server, client):
        """One round. A server and a client are (guest, beginning of the command, device, GID index)."""
        def command(end, way, peer=""):
            _, before, device, gid = end
            return f"{before} {PINGPONG}{way} -d {device} -g {gid} {peer}"
        found = {}
        for way, option in WAYS.items():
            listening = server[0].start(command(server, option), 90)
            server[0].run("until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done", 30)
            calling = client[0].start(command(client, option, server[0].commands[1]), 90)
            codes = calling.finish(), listening.finish()
            if codes != (0, 0):
                raise AssertionError(f"{calling}\n{listening}")
            found[way] = float(re.search(r"= ([\d.]+) usec/iter", calling.output)[1])
        return found


def measure(rig, model, rounds):
    """Lists of microseconds by (ends, way)."""
    found = {}
    far = (rig.rxe_guest, "", "rxe1", 1)

    def add(ends, server, client):
        for _ in range(rounds):
            for way, value in rig.microseconds(server, client).items():
                found.setdefault((ends, way), []).append(value)

    card = rig.cards[model][0]
    rig.bind(card, cards.BY_NAME[model].kernel_driver)
    name = rig.guest.run(f"for i in $(seq 50); do ls /sys/bus/pci/devices/{card.pci}/net /sys/bus/pci/devices/{card.pci}/virtio*/net "
                         "2>/dev/null | grep eth && exit 0; sleep 0.1; done").split()[0]
    rig.guest.run(f"ip addr add {card.addresses[0]}/24 dev {name}; ip link set {name} up; "
                  f"until busybox ping -c 1 -W 1 {cards.RXE[0]} >/dev/null; do :; done; rdma link add rxecard type rxe netdev {name}", 30)
    add("rxe - rxe in the other guest", far, (rig.guest, "", "rxecard", 1))
    rig.guest.run("rdma link delete rxecard")
    daemon = cards.Daemon(rig, rig.cards[model])
    ours = [(rig.guest, daemon.run(), f"uroce{number}", 0) for number in (0, 1)]
    add("uroce - rxe in the other guest", far, ours[0])
    sent_again = [sent_again_by(daemon, 0)]
    add("uroce - uroce, one daemon", ours[0], ours[1])
    sent_again.append(sum(sent_again_by(daemon, number) for number in (0, 1)) - sent_again[0])
    daemon.end()
    daemons = [cards.Daemon(rig, [card], eal=("-l", str(number)), socket=f"/run/{number}.sock")
               for number, card in enumerate(rig.cards[model])]
    add("uroce - uroce, two daemons", *((rig.guest, daemon.run(), "uroce0", 0) for daemon in daemons))
    sent_again.append(sum(sent_again_by(daemon, 0) for daemon in daemons))
    for daemon in daemons:
        daemon.end()
    return found, sent_again


def sent_again_by(daemon, number):
    return daemon.counters(number)["retransmitted_packets"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object for each line")
    parser.add_argument("models", nargs="*", default=[model.name for model in cards.MODELS], metavar="MODEL")
    args = parser.parse_args()
    reason = rigs.missing()
    if reason:
        sys.exit(f"error: {reason}")
    rigs.enter_namespace()
    rig = Rig([cards.BY_NAME[model] for model in args.models])
    rig.connect_guests()
    for model in args.models:
        found, sent_again = measure(rig, model, args.rounds)
        for (ends, way), values in found.items():
            line = {"card": model, "ends": ends, "way": way, "median": statistics.median(values), "least": min(values),
                    "most": max(values)}
            if args.json:
                print(json.dumps(line), flush=True)
            else:
                print(f"{model:14} {ends:36} {way:7} {line['median']:9.0f} {line['least']:9.0f} {line['most']:9.0f} us", flush=True)
        print(f"{model:14} packets sent again: {sent_again}", flush=True)


if __name__ == "__main__":
    main()
