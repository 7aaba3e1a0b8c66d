"""Two programs on pyverbs that check every byte they exchange, until the client gets SIGTERM: neighbour.py PORT [HOST]

A round: the client WRITEs, and says so with a SEND; the server compares, turns the bytes around and answers; the client READs them
and compares. The last line tells how many rounds there were."""

import json
import random
import signal
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES, HEAD = 20000, 16  # a region: those of the WRITE, then the messages to send and to receive
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
SILENCE = 60


def ipv4_gid(context):
    for index in range(16):
        gid = context.query_gid(1, index)
        if gid.gid.startswith("0000:0000:0000:0000:0000:ffff"):
            return index, gid.gid
    sys.exit("the device has no IPv4 address")


class Wire:
    """Lines to and from the other program. A file for both would drop a line that came early when it writes."""

    def __init__(self, connection):
        self.reads, self.writes = connection.makefile("r"), connection.makefile("w")

    def exchange(self, line):
        self.writes.write(line + "\n")
        self.writes.flush()
        return self.reads.readline()


class Side:
    def __init__(self, wire):
        self.context = Context(name="uroce0")
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, BYTES + 2 * HEAD, ACCESS)
        cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1), attr)
        index, gid = ipv4_gid(self.context)
        own = {"qpn": self.qp.qp_num, "gid": gid, "rkey": self.mr.rkey, "address": self.mr.buf}
        self.peer = json.loads(wire.exchange(json.dumps(own)))
        attr.dest_qp_num, attr.path_mtu = self.peer["qpn"], e.IBV_MTU_1024
        attr.rq_psn = attr.sq_psn = 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 16, 7, 7
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(self.peer["gid"]), sgid_index=index), is_global=1, port_num=1)
        self.receive()
        self.qp.to_rts(attr)
        if wire.exchange("ready") != "ready\n":
            sys.exit("the other program has ended")

    def receive(self):
        self.qp.post_recv(RecvWR(wr_id=1, num_sge=1, sg=[SGE(self.mr.buf + BYTES + HEAD, HEAD, self.mr.lkey)]))

    def post(self, opcode, offset, length):
        wr = SendWR(wr_id=2, opcode=opcode, num_sge=1, sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)],
                    send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_rdma(self.peer["rkey"], self.peer["address"])
        self.qp.post_send(wr)

    def await_completions(self, *numbers, early=()):
        """One of each of these work requests, in any order; returns those of `early` that came meanwhile."""
        wanted, came, limit = sorted(numbers), [], time.monotonic() + SILENCE
        while wanted:
            count, done = self.cq.poll(1)
            if count == 0 and time.monotonic() > limit:
                sys.exit(f"no completion of {wanted} within {SILENCE} s")
            for one in done if count else ():
                if one.status == e.IBV_WC_SUCCESS and one.wr_id in wanted:
                    wanted.remove(one.wr_id)
                elif one.status == e.IBV_WC_SUCCESS and one.wr_id in early and one.wr_id not in came:
                    came.append(one.wr_id)
                else:
                    sys.exit(f"completion of {one.wr_id} with status {one.status}, where {wanted} were to come")
        return came

    def say(self, number):
        self.mr.write(f"{number:0{HEAD}d}", HEAD, BYTES)
        self.post(e.IBV_WR_SEND, BYTES, HEAD)

    def heard(self):
        said = int(self.mr.read(HEAD, BYTES + HEAD))
        self.receive()
        return said

    def expect(self, data, number):
        if self.mr.read(BYTES, 0) != data:
            sys.exit(f"round {number}: wrong bytes")


def of_round(number):
    return random.Random(number).randbytes(BYTES)


def serve(side):
    came = []
    for number in range(1, sys.maxsize):
        if not came:
            side.await_completions(1)
        said = side.heard()
        if said == 0:
            side.say(0)
            side.await_completions(2)
            return number - 1
        if said != number:
            sys.exit(f"round {said} came, where {number} was to come")
        data = of_round(number)
        side.expect(data, number)
        side.mr.write(data[::-1], BYTES, 0)
        side.say(number)
        # The next message completes before this one where the acknowledgement was lost (IBTA 9.7.5.1).
        came = side.await_completions(2, early=[1])
    return 0


def ask(side, stop):
    number = 0
    while not stop:
        number += 1
        data = of_round(number)
        side.mr.write(data, BYTES, 0)
        side.post(e.IBV_WR_RDMA_WRITE, 0, BYTES)
        side.say(number)
        side.await_completions(1, 2, 2)
        if (said := side.heard()) != number:
            sys.exit(f"an answer to round {said} came, where {number} was asked")
        side.post(e.IBV_WR_RDMA_READ, 0, BYTES)
        side.await_completions(2)
        side.expect(data[::-1], number)
    side.say(0)
    side.await_completions(1, 2)
    return number


def main():
    port, stop = int(sys.argv[1]), []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    if len(sys.argv) > 2:
        connection = socket.create_connection((sys.argv[2], port), 60)
    else:
        connection = socket.create_server(("", port)).accept()[0]
    side = Side(Wire(connection))
    print("running", flush=True)
    print(ask(side, stop) if len(sys.argv) > 2 else serve(side), flush=True)


main()
