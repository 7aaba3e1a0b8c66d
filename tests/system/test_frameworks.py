#!/usr/bin/env python3
"""Frameworks and programs as Debian ships them: UCX, Open MPI, MPICH, libfabric, fio, DAPL, iSER, qperf, QEMU. The commands are those
of config/programs.md. UCX_TLS is there because server and client are on one machine, where UCX prefers shared memory. Where the
two are apart, as in containers, there is no environment variable."""

import os
import random
import re
import shlex
import time

import harness
import qmp
import verbs
from harness import SOURCE, free_port

SERVER, CLIENT = "10.117.0.1", "10.117.0.2"
# More of each by hand: a login or a run that hangs now and then would show.
LOGINS = int(os.environ.get("UROCE_LOGINS", "4"))
QPERF_RUNS = int(os.environ.get("UROCE_QPERF_RUNS", "1"))
RANKS = SOURCE / "tests" / "system" / "clients" / "ranks.c"


class Case(verbs.Case):
    # Programs that spin and the engines share two cores.
    daemon_args = ("--idle", "sleep")

    def ucx_perftest(self):
        """The command and its help. Where Debian compiled it with MPI, it takes itself for a rank unless it is told."""
        asked = self.under("ucx_perftest", "-h")
        asked.wait(30)
        return ["ucx_perftest", *(("-P", "0") if "disable/enable MPI mode" in asked.output else ())], asked.output


class Ucx(Case):
    def test_sees_the_devices(self):
        self.need("ucx_info")
        output = self.finish(self.under("ucx_info", "-d"), 30)
        for transport in ("rc_verbs", "ud_verbs"):
            for device in ("uroce0:1", "uroce1:1"):
                self.assertRegex(output, rf"Transport: {transport}\n#\s+Device: {device}")

    def perftest(self, transports, *options, iterations=200):
        self.need("ucx_perftest")
        command, usage = self.ucx_perftest()
        if f" {options[options.index('-t') + 1]} - " not in usage:
            return  # UCX 1.10 has no ucp_am_bw
        command += ["-w", "10", "-n", iterations, *options]
        env = {**self.env, "UCX_TLS": transports}
        with self.subTest(transports=transports, options=options):
            port = free_port()
            server = self.start(self.words(*command, "-p", port), env=env)
            verbs.wait_for_listener(server, port)
            client = self.start(self.words(*command, "-p", port, "127.0.0.1"), env=env)
            code = client.wait(40)
            self.assertEqual(code, 0, f"{client}\n{server}")
            self.assertRegex(client.output, rf"Final: +{iterations} ")
            self.finish(server, 40)

    def test_messages(self):
        for transports in ("rc,self", "ud,self"):
            self.perftest(transports, "-t", "tag_lat")
            self.perftest(transports, "-t", "tag_bw", "-s", "100000")
            self.perftest(transports, "-t", "stream_lat")
            self.perftest(transports, "-t", "ucp_am_bw", "-s", "20000")

    def test_one_sided(self):
        for test in ("ucp_put_lat", "ucp_get", "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"):
            self.perftest("rc,self", "-t", test)
        self.perftest("ud,self", "-t", "ucp_put_lat")

    def test_sleeping_workers(self):
        """They hang unless arming a queue in which completions wait raises an event."""
        self.perftest("rc,self", "-t", "tag_lat", "-E", "sleep")
        self.perftest("ud,self", "-t", "tag_bw", "-s", "4096", "-E", "sleep")

    def test_threads(self):
        self.perftest("rc,self", "-t", "tag_lat", "-T", "2", "-M", "multi")

    def test_the_transports_themselves(self):
        for test in ("am_lat", "put_lat", "add_lat", "fadd", "cswap"):
            self.perftest("all", "-t", test, "-d", "uroce0:1", "-x", "rc_verbs")
        self.perftest("all", "-t", "am_lat", "-d", "uroce1:1", "-x", "ud_verbs")


class Mpi(Case):
    def ranks(self, compiler, launcher):
        """Compiled here, since the two libraries share no binary interface."""
        self.need(compiler)
        self.need(launcher)
        program = self.directory / "ranks"
        self.finish(self.start([compiler, "-O1", RANKS, "-o", program]), 60)
        return program

    def test_open_mpi(self):
        program = self.ranks("mpicc.openmpi", "mpirun.openmpi")
        for transports in ("rc,self", "ud,self"):
            with self.subTest(transports=transports):
                output = self.shell(
                    "mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca osc ucx "
                    f"-x UCX_TLS={transports} {program}", 90)
                self.assertIn("2 ranks: 0 errors", output)

    def test_mpich(self):
        program = self.ranks("mpicc.mpich", "mpirun.mpich")
        output = self.shell(f"mpirun.mpich -n 2 -genv UCX_TLS rc,self {program}", 60)
        self.assertIn("2 ranks: 0 errors", output)


class Apart(Case):
    """Programs in namespaces and under host names of their own, as in containers, so that they share no memory. UCX then has
    the choice between TCP and RC, and is not told which."""

    # The arguments of ssh: a host and words of a command.
    SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done  # options of ssh
exec unshare --ipc --uts --pid --fork --kill-child --mount-proc sh -c 'hostname "$0"; eval "$@"' "$@"
"""

    def setUp(self):
        super().setUp()
        if not harness.may_make_namespaces():
            self.skipTest("may not make namespaces (needs root)")
        self.on_host = self.directory / "on_host"
        self.on_host.write_text(self.SHELL)
        self.on_host.chmod(0o755)

    def sent_bytes(self):
        """By RDMA, on both devices."""
        stat = self.start([harness.BUILD / "apps/uroce/uroce", "stat", "--interval", "0", "--json"], env=self.env)
        return sum(device["counters"]["tx_bytes"] for device in harness.loads(self.finish(stat, 20)))

    def test_ucx(self):
        self.need("ucx_perftest")
        size, count, port = 100_000, 200, free_port()
        command = shlex.join([*self.ucx_perftest()[0], "-t", "tag_bw", "-s", str(size), "-w", "0", "-n", str(count), "-p", str(port)])
        server = self.start([verbs.RUN, self.on_host, "one", command], env=self.env)
        verbs.wait_for_listener(server, port)
        client = self.start([verbs.RUN, self.on_host, "two", f"{command} 127.0.0.1"], env=self.env)
        self.assertRegex(self.finish(client, 60), rf"Final: +{count} ")
        self.finish(server, 60)
        self.assertGreater(self.sent_bytes(), size * count)

    def mpi(self, name, *options):
        """Messages of 2 MB and more in all. uroce-run comes behind mpirun, as between hosts: ssh passes no environment on, and
        uroce-run's folder is on its own host alone."""
        self.need(f"mpicc.{name}")
        self.need(f"mpirun.{name}")
        program = self.directory / "ranks"
        self.finish(self.start([f"mpicc.{name}", "-O1", RANKS, "-o", program]), 60)
        ranks = self.start([f"mpirun.{name}", "-n", "2", *options, verbs.RUN, program], env=self.env)
        self.addCleanup(self.kill_group, ranks)
        self.assertIn("2 ranks: 0 errors", self.finish(ranks, 90))
        self.assertGreater(self.sent_bytes(), 2_000_000)

    def test_open_mpi(self):
        self.mpi("openmpi", "--allow-run-as-root", "--host", "one,two", "--mca", "plm_rsh_agent", self.on_host,
                 "--mca", "pml", "ucx", "--mca", "osc", "ucx")

    def test_mpich(self):
        """Each host must know the name by which mpiexec calls its own, here 127.0.0.1."""
        self.mpi("mpich", "-localhost", "127.0.0.1", "-launcher", "ssh", "-launcher-exec", self.on_host, "-hosts", "one,two")


class Libfabric(Case):
    def pingpong(self, *options):
        """Each checks its bytes."""
        self.need("fi_pingpong")
        self.needs_netns()
        port = free_port()
        server, client = (shlex.join(["fi_pingpong", "-I", "10", *options]) + f" {where}" for where in
                          (f"-B {port}", f"-P {port} {SERVER}"))
        wait = f"until ss -Htln sport = :{port} | grep -q .; do sleep 0.1; done"
        output = self.shell(f"{server} & {wait}; {client} && wait $!", 40, "--netns")
        self.assertEqual(len(re.findall(r"(?m)^4k +10 +=10", output)), 2, output)

    def test_its_probes_are_no_refusals(self):
        """It looks for the largest inline size by asking for larger and larger ones."""
        self.need("fi_info")
        self.needs_netns()
        output = self.shell("fi_info -p verbs", 40, "--netns", "--explain")
        # libfabric 2 asks for a size that every device has.
        probes = "$" if "version: 2" in output else r"\n.*tried out .*\n +\d+ x  fi_info: QpCap::max_inline_data is"
        self.assertRegex(output, rf"refused no call\.{probes}")

    def test_messages(self):
        self.pingpong("-p", "verbs", "-e", "msg", "-c")

    def test_reliable_datagrams(self):
        self.pingpong("-p", "verbs;ofi_rxm", "-e", "rdm", "-c")

    def test_datagrams(self):
        self.pingpong("-p", "verbs", "-e", "dgram")


class Storage(Case):
    def fio(self, verb, *options, of_server=()):
        port = free_port()
        common = f"--ioengine=rdma --port={port} --bs=64k --size=8m --iodepth=4"
        with self.subTest(verb=verb, options=options):
            server = self.under("fio", *common.split(), "--name=server", "--rw=read", *of_server)
            server.wait_for("waiting for connection", 20)
            client = self.under("fio", *common.split(), "--name=client", "--rw=write", f"--verb={verb}",
                                f"--hostname={SERVER}", *options)
            output = self.finish(client, 40)
            self.assertIn("err= 0", output)
            self.assertIn("io=8192KiB", output)
            self.assertIn("err= 0", self.finish(server, 40))

    def test_fio(self):
        """Each takes one connection, and learns from the client what is to be done."""
        self.fio("write", "--verify=crc32c")
        self.fio("read")

    def test_fio_verifies_at_the_receiver(self):
        """Only SENDs tell the receiver of blocks. It has a receive for each, because fio allows no RNR retry."""
        self.fio("send", "--verify=crc32c", of_server=("--verify=crc32c", "--iodepth=128"))

    INITIATOR = "iqn.2026-01.uroce:initiator"
    TARGET = "iqn.2026-01.uroce:disk"

    def iser(self, commands, seconds, *programs):
        """The output of commands beside tgtd, which serves the file `disk` of 16 MiB."""
        for program in ("tgtd", "tgtadm", *programs):
            self.need(program)
        disk = self.directory / "disk"
        disk.write_bytes(bytes(16 << 20))
        control = 32 + os.getpid() % 30000
        return self.shell(f"""
            tgtd -f -C {control} --iscsi portal=127.0.0.1:{free_port()} --iser port=3260,pool_sz_mb=64 & target=$!
            admin="tgtadm -C {control} --lld iser"
            for i in $(seq 600); do $admin --mode target --op show 2>/dev/null && break; sleep 0.1; done
            set -e
            $admin --mode target --op new --tid 1 --targetname {self.TARGET}
            $admin --mode logicalunit --op new --tid 1 --lun 1 --backing-store {disk}
            $admin --mode target --op bind --tid 1 --initiator-address ALL
            $admin --mode target --op bind --tid 1 --initiator-name {self.INITIATOR}
            {commands}
            kill -9 $target""", seconds)

    def test_iser(self):
        """libiscsi's initiator logs in and reads."""
        output = self.iser(f"""
            for i in $(seq {LOGINS}); do
                timeout 60 iscsi-inq -i {self.INITIATOR} iser://{SERVER}:3260/{self.TARGET}/1 | grep -q DIRECT_ACCESS && echo logged in
            done""", 200 + 4 * LOGINS, "iscsi-inq")
        self.assertEqual(output.count("logged in"), LOGINS, output)

    def test_iser_data(self):
        """QEMU's disks by libiscsi's initiator: random bytes, patterns of odd lengths, several at once, and all of the disk read
        back. libiscsi 1.19 fails for more than 256 KiB in one command."""
        most = 256 << 10
        expected = bytearray(16 << 20)
        writes, reads = "", ""
        for number in range(16):
            chunk, data = self.directory / f"chunk{number}", random.Random(number).randbytes(most)
            chunk.write_bytes(data)
            expected[number * most:(number + 1) * most] = data
            writes += f"-c 'write -s {chunk} {number * most} {most}' "
        for number, length in enumerate((512, 4096, 8704, 65536, most - 512, most), 1):
            where = (8 << 20) + number * (1 << 20) - 1024
            expected[where:where + length] = bytes([number]) * length
            writes += f"-c 'aio_write -P {number} {where} {length}' "
            reads += f"-c 'read -P {number} {where} {length}' "
        disk = (f"driver=iscsi,transport=iser,portal={SERVER}:3260,target={self.TARGET},lun=1,"
                f"initiator-name={self.INITIATOR}")
        output = self.iser(f"""
            timeout 90 qemu-io --image-opts {disk} {writes} -c aio_flush -c flush
            timeout 90 qemu-io -r --image-opts {disk} {reads}
            timeout 90 qemu-img dd --image-opts -O raw bs={most} if={disk} of={self.directory}/back""", 300, "qemu-img", "qemu-io")
        self.assertEqual(len(re.findall(r"(?m)^wrote (\d+)/\1 bytes", output)), 22, output)
        self.assertEqual(len(re.findall(r"(?m)^read (\d+)/\1 bytes", output)), 6, output)
        self.assertNotIn("failed", output)
        for name in ("disk", "back"):
            self.assertTrue((self.directory / name).read_bytes() == expected, f"{name} differs\n{output}")


class Others(Case):
    def test_qperf(self):
        """The server of qperf 0.4.11 tells its port before it listens. A client that is faster is rejected, and here tries
        again; a rejection for any other reason fails."""
        self.need("qperf")
        self.needs_netns()
        output = self.shell(f"""
            run() {{
                for try in 1 2 3; do
                    said=$(timeout 60 qperf {SERVER} -cm1 -t 1 $1 2>&1); echo "$said"
                    [[ $said == *"Event rejected"* ]] || break
                done
            }}
            qperf & server=$!
            until ss -Htln sport = :19765 | grep -q .; do sleep 0.1; done
            for i in $(seq {QPERF_RUNS}); do run rc_lat; done
            run rc_bw
            kill $server""", 200 + 20 * QPERF_RUNS, "--netns")
        self.assertEqual(len(re.findall(r"latency += +\d", output)), QPERF_RUNS, output)
        self.assertRegex(output, r"bw += +\d")
        self.assertEqual(self.counter("cm_rej_sent"), self.counter("cm_no_listener"), output)
        self.assertEqual(output.count("Event rejected"), self.counter("cm_no_listener"), output)

    def test_dtest(self):
        self.need("dtest")
        self.needs_netns()
        registry = self.directory / "dat.conf"
        registry.write_text("".join(
            f'ofa-v2-{device} u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{device} 0" ""\n'
            for device in ("uroce0", "uroce1")))
        output = self.shell(
            f"dtest -P ofa-v2-uroce0 -b 4096 & until ss -Htln sport = :15828 | grep -q .; do sleep 0.1; done; "
            f"dtest -P ofa-v2-uroce1 -b 4096 -h {SERVER} && wait $!", 60, "--netns",
            env={"DAT_OVERRIDE": str(registry)})
        self.assertEqual(output.count("DAPL Test Complete. PASSED"), 2, output)

    def migrate(self, pin_all):
        """A guest that is stopped, with 64 MiB of memory."""
        self.need("qemu-system-x86_64")
        port = free_port()
        machine = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "pc,accel=tcg", "-m", "64", "-S"]
        address = f"rdma:{SERVER}:{port}"
        there = self.under(*machine, "-incoming", "defer", "-qmp", f"unix:{self.directory}/there,server=on,wait=off")
        here = self.under(*machine, "-qmp", f"unix:{self.directory}/here,server=on,wait=off")
        to, source = (qmp.Monitor(self.directory / name) for name in ("there", "here"))
        for monitor in (to, source):
            monitor.call("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin_all}])
        to.call("migrate-incoming", uri=address)
        source.call("migrate", uri=address)
        limit = time.monotonic() + 40 * harness.SLOW
        while (state := source.call("query-migrate"))["status"] not in ("completed", "failed"):
            self.assertLess(time.monotonic(), limit, f"{state}\n{here}\n{there}")
            time.sleep(0.1)
        self.assertEqual(state["status"], "completed", f"{state}\n{here}\n{there}")
        for monitor, program in ((source, here), (to, there)):
            monitor.call("quit")
            self.finish(program, 20)

    def test_qemu_migration(self):
        for pin_all in (False, True):
            with self.subTest(pin_all=pin_all):
                self.migrate(pin_all)


if __name__ == "__main__":
    harness.main()
