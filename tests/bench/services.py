"""The services of tests/bench/run_services, each on one way (TCP, or uroce's devices): a context manager that starts its programs
below a folder and ends them by their process ids, and measure(), which gives the operations of a second by the test's name."""

import contextlib
import csv
import dataclasses
import itertools
import pathlib
import re
import shutil
import sys
import uuid

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "config"), str(SOURCE / "tests" / "system")]
import harness  # noqa: E402

START_S = 60  # of a machine whose cores are taken
RUN_S = 120
SERVER_DEVICE, CLIENT_DEVICE, SERVER_ADDRESS = "uroce0", "uroce1", "10.117.0.1"


@dataclasses.dataclass(frozen=True)
class Way:
    """`rdma`: on the daemon's devices. `before` stands before each command, and `env` is added to its environment."""

    rdma: bool
    before: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)


class Service:
    """`folder` is new, and is the service's own."""

    def __init__(self, way, folder, options):
        self.way, self.folder, self.options = way, folder, options
        self.stack = contextlib.ExitStack()
        self.programs = []

    def __enter__(self):
        with self.stack:
            self.bring_up()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        with self.stack:
            for program in reversed(self.programs):
                program.process.terminate()
            for program in self.programs:
                program.wait(START_S)

    def program(self, *command):
        return harness.Program([*self.way.before, *command], self.folder, env=self.way.env)

    def start(self, *command):
        """Returns a program that runs until the end."""
        self.programs.append(self.stack.enter_context(self.program(*command)))
        return self.programs[-1]

    def run(self, *command):
        """Returns what a command that ends by itself said."""
        with self.program(*command) as program:
            if program.wait(RUN_S) != 0:
                raise AssertionError(f"a command failed: {program}")
            return program.output


class Ceph(Service):
    """One monitor, two OSDs in memory, a pool with two copies, and `rados bench` with its default of 16 operations at once. Nothing
    is authenticated, so no key is needed."""

    SIZES = {"4k": 4096, "64k": 65536}
    TESTS = [f"{kind} {size}" for size, kind in itertools.product(SIZES, ("write", "read"))]
    OSDS = 2

    @staticmethod
    def missing(_):
        """The sentence that says what to install, if anything is missing."""
        absent = [name for name in ("ceph-mon", "ceph-osd", "monmaptool", "ceph", "rados") if not shutil.which(name)]
        return f"ceph lacks {', '.join(absent)}; install ceph-mon, ceph-osd and ceph-common" if absent else None

    def bring_up(self):
        port, fsid = harness.free_port(), uuid.uuid4()
        address = f"[v2:127.0.0.1:{port}]"
        for name, device in (("server", SERVER_DEVICE), ("client", CLIENT_DEVICE)):
            (self.folder / f"{name}.conf").write_text(self.settings(fsid, address, device))
        self.server = ("-c", self.folder / "server.conf")
        self.client = ("-c", self.folder / "client.conf")
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, self.folder / "monmap")
        self.run("ceph-mon", *self.server, "--mkfs", "-i", "a", "--monmap", self.folder / "monmap")
        self.start("ceph-mon", *self.server, "-f", "-i", "a")
        for number in range(self.OSDS):
            (self.folder / f"osd{number}").mkdir()
            name = uuid.uuid4()
            self.run("ceph", *self.client, "osd", "new", name)
            self.run("ceph-osd", *self.server, "--mkfs", "-i", number, "--osd-uuid", name)
            self.start("ceph-osd", *self.server, "-f", "-i", number)
        self.run("ceph", *self.client, "osd", "pool", "create", "bench", "32", "32")
        self.bench(1, "write", "-b", self.SIZES["64k"], "--no-cleanup")  # waits until the OSDs serve

    def settings(self, fsid, address, device):
        rows = {
            "fsid": fsid, "mon_host": address, "public_addr": "127.0.0.1", "cluster_addr": "127.0.0.1",
            "auth_cluster_required": "none", "auth_service_required": "none", "auth_client_required": "none",
            "mon_data": f"{self.folder}/mon", "osd_data": f"{self.folder}/osd$id", "log_file": f"{self.folder}/$name.log",
            "run_dir": self.folder, "mon_cluster_log_file": f"{self.folder}/cluster.log",
            "osd_objectstore": "memstore", "memstore_device_bytes": 6 << 30,
            "osd_pool_default_size": self.OSDS, "osd_pool_default_min_size": 1, "osd_crush_chooseleaf_type": 0,
            "osd_pool_default_pg_autoscale_mode": "off",
            "ms_type": "async+rdma" if self.way.rdma else "async+posix",
        }
        if self.way.rdma:
            rows["ms_async_rdma_device_name"] = device
        return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())

    def bench(self, seconds, *words):
        said = self.run("rados", *self.client, "-p", "bench", "bench", seconds, *words)
        return float(re.search(r"Average IOPS: +(\d+)", said)[1])

    def measure(self):
        figures = {}
        for size, count in self.SIZES.items():
            figures[f"write {size}"] = self.bench(self.options.seconds, "write", "-b", count, "--no-cleanup")
            figures[f"read {size}"] = self.bench(self.options.seconds, "rand")
        return figures


class Valkey(Service):
    """valkey-server without files, and valkey-benchmark."""

    VALUES = {"64": 64, "16k": 16384}
    REQUESTS = {1: 10000, 50: 25000}  # by clients
    TESTS = [f"{kind} {value} x{clients}" for value, clients, kind in itertools.product(VALUES, REQUESTS, ("set", "get"))]

    @staticmethod
    def missing(options):
        """The sentence that says what to build, if anything is missing."""
        absent = [name for name in ("valkey-server", "valkey-benchmark") if not (options.valkey / name).exists()]
        if absent:
            return (f"{options.valkey} lacks {' and '.join(absent)}; build valkey 9 of github.com/valkey-io/valkey by "
                    f"`make BUILD_RDMA=yes`, and name its folder src by --valkey")
        return None

    def bring_up(self):
        self.port = harness.free_port()
        where = ["--port", 0, "--rdma-bind", SERVER_ADDRESS, "--rdma-port", self.port] if self.way.rdma else ["--port", self.port]
        server = self.start(self.options.valkey / "valkey-server", *where, "--bind", "127.0.0.1", "--save", "", "--protected-mode", "no")
        server.wait_for("Ready to accept connections", START_S)

    def measure(self):
        figures = {}
        where = ["--rdma", "-h", SERVER_ADDRESS] if self.way.rdma else ["-h", "127.0.0.1"]
        for value, size in self.VALUES.items():
            for clients, requests in self.REQUESTS.items():
                said = self.run(self.options.valkey / "valkey-benchmark", *where, "-p", self.port, "-t", "set,get", "-d", size,
                                "-c", clients, "-n", requests, "--csv")
                rates = {row[0].lower(): float(row[1]) for row in csv.reader(said.splitlines()) if row[:1] in (["SET"], ["GET"])}
                figures |= {f"{kind} {value} x{clients}": rates[kind] for kind in ("set", "get")}
        return figures
