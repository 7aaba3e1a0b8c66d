"""Drives `interop_peer` at both ends of a wire: verbs objects by number, one call at a time."""

import json
import os
import select
import subprocess

import harness
import rig as rigs


class Refused(Exception):
    """A verb failed."""


class Peer:
    """Calls of interop_peer (peer.cc), with its GIDs at hand."""

    name = None  # of this side in a table
    ended = False

    def __init__(self, side, device, addresses):
        self.side, self.device = side, device
        self.addresses = dict(zip((4, 6), addresses))
        gids = self.call("about")["gids"]
        self.gid = {family: gids.index(gid_text(address)) for family, address in self.addresses.items()}

    def exchange(self, line):
        raise NotImplementedError

    def call(self, name, **arguments):
        reply = json.loads(self.exchange(json.dumps({"call": name, **arguments})))
        if "error" in reply:
            raise Refused(f"{self.side}: {name} {arguments}: {reply['error']}")
        return reply

    def region(self, length, *access, memory="heap"):
        return Region(self, length, access, memory)

    def completions(self, qp, queue, count=1, seconds=30):
        return self.call("poll", qp=qp.id, queue=queue, count=count, seconds=seconds * harness.SLOW)["completions"]

    def events(self, seconds=0):
        return self.call("events", seconds=seconds)["events"]


def gid_text(address):
    return address if ":" in address else f"::ffff:{address}"


class HostPeer(Peer):
    name = "uroce"

    def __init__(self, rig, wire):
        device = rig.device(wire)
        self.process = subprocess.Popen(
            [*rig.as_user, rigs.RUN, rigs.PEER, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **rig.env}, start_new_session=True)
        rig.running.append(self)
        super().__init__("host", device, rigs.addresses(wire, "host"))

    def exchange(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 60 * harness.SLOW)[0]:
            raise AssertionError(f"the host's peer is silent after {line}")
        reply = self.process.stdout.readline()
        if not reply:
            raise AssertionError(f"the host's peer ended (exit code {self.process.wait(30)}) after {line}")
        return reply

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait(30)


class GuestPeer(Peer):
    """In a guest: on rxe, or on another device behind the command `run`."""

    def __init__(self, guest, name, device, addresses, run="exec"):
        self.name = name
        self.remote = guest.start(f"{run} {rigs.PEER} {device}", 3600)
        super().__init__("guest", device, addresses)

    def exchange(self, line):
        self.remote.send_line(line)
        return self.remote.read_line()

    def kill(self):
        self.ended = True
        self.remote.close()


class Region:
    """Registered memory at a peer, filled with a pattern from the start."""

    BACKGROUND = 77

    def __init__(self, peer, length, access, memory):
        self.peer, self.length = peer, length
        made = peer.call("region", length=length, access=("local", *access), memory=memory)
        self.id, self.addr, self.lkey, self.rkey = (made[key] for key in ("id", "addr", "lkey", "rkey"))
        self.restore(0, length)

    def fill(self, seed, offset, length):
        self.peer.call("fill", region=self.id, seed=seed, offset=offset, length=length)

    def restore(self, offset, length):
        """Puts the background back."""
        self.peer.call("fill", region=self.id, seed=self.BACKGROUND, offset=offset, length=length, **{"from": offset})

    def wrong(self, seed, offset, length):
        """Differences from pattern `seed` in the range, and from the background outside it; empty when there are none."""
        return self.peer.call("check", region=self.id, seed=seed, offset=offset, length=length, background=self.BACKGROUND)

    def word(self, offset, **new):
        return self.peer.call("word", region=self.id, offset=offset, **new)["value"]

    def close(self):
        self.peer.call("destroy", id=self.id)


class QueuePair:
    """A queue pair at a peer."""

    def __init__(self, peer, kind, **attributes):
        self.peer, self.kind = peer, kind
        if kind == "UD":
            attributes.setdefault("qkey", 0x11111111)
        else:
            attributes.setdefault("access", ("local", "write", "read", "atomic"))
        made = peer.call("qp", type=kind, **attributes)
        self.id, self.qpn = made["id"], made["qpn"]
        self.qkey = attributes.get("qkey")

    def connect(self, other, psn, peer_psn, mtu, family=4, **attributes):
        """To `other`; this side's requests begin at `psn`, the other's at `peer_psn`."""
        self.handle = None
        to = {"gid": gid_text(other.peer.addresses[family]), "sgid_index": self.peer.gid[family]}
        call = {"qp": self.id, "dest_qpn": other.qpn, "sq_psn": psn, "rq_psn": peer_psn, "mtu": mtu, **to, **attributes}
        for last in (False, False, True):
            try:
                self.peer.call("connect", **call)
                break
            except Refused as e:
                # Linux asks for an Ethernet address for a second. The guest's emulated CPU may be away for longer.
                if last or self.peer.side != "guest" or "to RTR: Connection timed out" not in str(e):
                    raise
        if self.kind == "UD":
            self.handle = self.peer.call("ah", **to)["id"]
        self.other = other

    def post(self, op, region, length, offset=0, remote=None, remote_offset=0, **more):
        """A work request; `remote` is the region at the other side that a WRITE, READ or atomic names."""
        if remote is not None:
            more.setdefault("remote_addr", remote.addr + remote_offset)
            more.setdefault("rkey", remote.rkey)
        if self.handle is not None:
            more.update(ah=self.handle, remote_qpn=self.other.qpn, remote_qkey=self.other.qkey)
        self.peer.call("post", qp=self.id, op=op, region=region.id, offset=offset, length=length, **more)

    def recv(self, region, length, offset=0, **more):
        self.peer.call("recv", qp=self.id, region=region.id, offset=offset, length=length, **more)

    def sent(self, count=1, seconds=30):
        return self.peer.completions(self, "send", count, seconds)

    def received(self, count=1, seconds=30):
        return self.peer.completions(self, "recv", count, seconds)

    def state(self):
        return self.peer.call("state", qp=self.id)["state"]

    def close(self):
        if self.peer.ended:
            return
        if self.handle is not None:
            self.peer.call("destroy", id=self.handle)
        if self.id is not None:
            self.peer.call("destroy", id=self.id)
        self.handle = self.id = None


def pair(one, two, kind, mtu, psns=(0xFFFFFE, 100), family=4, responder_access=None, operations=None, **connection):
    """Connected queue pairs of two peers. The PSNs of the first wrap around at once. The second grants `responder_access`. With
    `operations` the first posts those and no others."""
    a = QueuePair(one, kind, **({"operations": operations} if operations else {}))
    b = QueuePair(two, kind, **({"access": responder_access} if responder_access else {}))
    a.connect(b, *psns, mtu, family, **connection)
    b.connect(a, *reversed(psns), mtu, family, **connection)
    return a, b
