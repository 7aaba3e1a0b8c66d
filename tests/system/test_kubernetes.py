#!/usr/bin/env python3
"""The examples for containers: the commands and options in them exist, and run with the capabilities that they ask for."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import time
import unittest

import harness
import verbs

CONFIG = harness.SOURCE / "config"
PROGRAMS = {name: harness.BUILD / "apps" / folder / name
            for name, folder in (("uroced", "uroced"), ("uroce", "uroce"), ("uroce-run", "uroce-run"), ("uroce_perf", "."))}
# The packages that the images install have these.
PERFTEST = {"ib_write_bw", "ibv_devinfo"}

try:
    import yaml
except ImportError:
    yaml = None


def documents():
    """(file's name, document) of all manifests."""
    for path in sorted((CONFIG / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, document


def pods():
    """(file's name, kind, pod's specification)"""
    for name, document in documents():
        if document["kind"] == "Pod":
            yield name, document["metadata"]["name"], document["spec"]
        elif "template" in document["spec"]:
            yield name, document["metadata"]["name"], document["spec"]["template"]["spec"]


def container(name):
    """The only container of the pods with this name, or of the pod itself."""
    return next(spec["containers"][0] for _, pod, spec in pods() if pod == name)


def options_of(program, *commands):
    done = subprocess.run([PROGRAMS[program], *commands, "--help"], capture_output=True, text=True, timeout=60 * harness.SLOW, check=True)
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.stdout))


@unittest.skipUnless(yaml, "python3-yaml is missing; config/packages.txt names it")
class Manifests(harness.Case):
    def commands(self):
        """All commands in the manifests and in the Dockerfile."""
        for name, _, spec in pods():
            for one in spec["containers"]:
                yield name, one["command"]
                for probe in ("readinessProbe", "livenessProbe"):
                    if probe in one:
                        yield name, one[probe]["exec"]["command"]
        for line in re.findall(r"^CMD (\[.*\])$", (CONFIG / "container" / "Dockerfile").read_text(), re.MULTILINE):
            yield "Dockerfile", yaml.safe_load(line)

    def test_commands_and_options_exist(self):
        found = list(self.commands())
        self.assertGreaterEqual(len(found), 6)
        for name, command in found:
            with self.subTest(f"{name}: {command}"):
                self.assertTrue(all(isinstance(word, str) for word in command))
                self.assertIn(command[0], PROGRAMS)
                if command[0] == "uroce-run":
                    self.assertIn(command[1], PERFTEST)
                else:
                    self.assertLessEqual({word for word in command if word.startswith("-")}, options_of(*command[:2] if command[0] == "uroce" else command[:1]))

    def check(self, *files):
        done = subprocess.run(["/usr/bin/python3", pathlib.Path(__file__).with_name("kubernetes_schema.py"), *files], capture_output=True, text=True,
                              timeout=60 * harness.SLOW, check=False)
        if done.returncode == 77:
            self.skipTest("python3-kubernetes is missing; config/packages.txt names it")
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_they_fit_the_schema(self):
        """The files, and the pod of the page."""
        files = sorted((CONFIG / "kubernetes").glob("*.yaml"))
        for number, block in enumerate(re.findall(r"^```\n(apiVersion: .*?)^```$", (CONFIG / "containers.md").read_text(), re.MULTILINE | re.DOTALL)):
            files.append(self.directory / f"page-{number}.yaml")
            files[-1].write_text(block)
        self.assertGreaterEqual(len(files), 3)
        self.assertEqual(self.check(*files), "")

    def test_what_does_not_fit_is_told(self):
        good = (CONFIG / "kubernetes" / "daemonset.yaml").read_text()
        for old, new, fault in (("selector:", "selectr:", "DaemonSet.spec.selectr is no member"),
                                ("hostNetwork: true", "hostNetwork: 'yes'", "hostNetwork is 'yes', and has to be of type bool"),
                                ("- name: uroced\n          image:", "- image:", "Invalid value for `name`"),
                                ("apiVersion: apps/v1", "apiVersion: v1", "no v1 DaemonSet is in the schema")):
            with self.subTest(fault):
                self.assertIn(old, good)
                bad = self.directory / "bad.yaml"
                bad.write_text(good.replace(old, new, 1))
                self.assertIn(fault, self.check(bad))

    def test_volumes_images_and_variables_exist(self):
        stages = set(re.findall(r" AS (\w+)$", (CONFIG / "container" / "Dockerfile").read_text(), re.MULTILINE))
        images = {"uroce": "daemon", "uroce-programs": "programs"}
        self.assertLessEqual(set(images.values()), stages)
        for name, pod, spec in pods():
            with self.subTest(f"{name}: {pod}"):
                volumes = {volume["name"] for volume in spec["volumes"]}
                for one in spec["containers"]:
                    self.assertIn(one["image"], images)
                    self.assertEqual({mount["name"] for mount in one["volumeMounts"]}, volumes)
                    variables = re.findall(r"\$\((\w+)\)", " ".join(one["command"]))
                    self.assertLessEqual(set(variables), {variable["name"] for variable in one.get("env", ())})

    def test_the_packages_of_the_image_are_ours(self):
        text = (CONFIG / "container" / "Dockerfile").read_text()
        control = (harness.SOURCE / "debian" / "control").read_text()
        packages = set(re.findall(r"^Package: (\S+)$", control, re.MULTILINE))
        self.assertLessEqual(set(re.findall(r"/packages/([\w-]+)_", text)), packages)
        for script in re.findall(r"config/[\w-]+\.sh", text):
            self.assertTrue((harness.SOURCE / script).stat().st_mode & stat.S_IXUSR, script)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv") and shutil.which("ib_write_bw") and harness.may_make_namespaces(),
                         "needs root, network namespaces and perftest")
    def test_daemon_and_programs_run_with_their_rights(self):
        """Two namespaces are the nodes. A container has the capabilities of the manifest, and no user but its own."""
        self.directory.chmod(0o755)
        with harness.Namespaces() as nodes:
            sockets = [self.directory / node / "uroced.sock" for node in nodes.names]
            daemons = [self.daemon(node, socket) for node, socket in zip(nodes.names, sockets)]
            output = self.write_bw(nodes, sockets)
            for daemon in daemons:
                os.kill(daemon.process.pid, 15)
                self.finish(daemon, 45)
        self.assertRegex(output, r"\n *65536 +5000 +[\d.]+ ")

    def write_bw(self, nodes, sockets, tries=5):
        """The client's output. Once more where perftest could not calibrate the processor's clock (verbs.Case.pair())."""
        server = self.program("write-bw-server", nodes.names[0], sockets[0])
        service = next(document for _, document in documents() if document["kind"] == "Service")
        harness.wait_for_listener(nodes.names[0], service["spec"]["ports"][0]["port"], server, 60)
        client = self.program("write-bw-client", nodes.names[1], sockets[1])
        codes = client.wait(60), server.wait(60)
        if verbs.CLOCK_UNKNOWN in client.output + server.output and tries > 1:
            return self.write_bw(nodes, sockets, tries - 1)
        self.assertEqual(codes, (0, 0), f"{client}\n{server}")
        return client.output

    def test_a_rolling_update_keeps_connections(self):
        """A pod's new container has processes and a /run of its own, and the node's network and socket folder (maxSurge)."""
        update = next(document["spec"]["updateStrategy"] for _, document in documents() if document["kind"] == "DaemonSet")
        self.assertEqual(update["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
        self.directory.chmod(0o755)
        with harness.Namespaces() as nodes:
            sockets = [self.directory / node / "uroced.sock" for node in nodes.names]
            for socket in sockets:
                socket.parent.mkdir()
            pods_now = [self.pod(node, socket) for node, socket in zip(nodes.names, sockets)]
            for pod in pods_now:
                pod.wait_for("serving", 60)

            def updated_meanwhile(seconds):
                programs = self.long_write(nodes, sockets, seconds)
                for node, old, socket in zip(nodes.names, list(pods_now), sockets):
                    new = self.pod(node, socket)
                    new.wait_for("took over from a process of another container", 60)
                    self.wait_until_ready(new, socket)
                    old.wait_for("handed over to a process of another container", 20)
                    self.assertIsNone(old.process.poll(), "its end would have it started again")
                    self.assertNotEqual(self.probe(old, socket), 0)
                    self.end_pod(old)
                    pods_now[nodes.names.index(node)] = new
                lasted = all(one.process.poll() is None for one in programs)
                self.finish_both(*programs, seconds + 60)
                return lasted

            self.while_it_lasts(updated_meanwhile, (10, 40, 160))
            for pod in pods_now:
                self.end_pod(pod)

    def pod(self, node, socket):
        """The container of the manifest, in the namespaces that Kubernetes gives it."""
        text = 'mount --make-rprivate / && mount -t tmpfs tmpfs /run && mount -t proc proc /proc && exec "$@"'
        return self.start(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", text, "sh", *self.rights(),
                           PROGRAMS["uroced"], *self.words(), "--socket", socket], node)

    def inside(self, pod):
        """The container's first process."""
        children = f"/proc/{pod.process.pid}/task/{pod.process.pid}/children"
        return int(pathlib.Path(children).read_text())

    def end_pod(self, pod):
        os.kill(self.inside(pod), 15)
        self.finish(pod, 45)

    def probe(self, pod, socket):
        """The exit code of the readiness probe."""
        words = container("uroced")["readinessProbe"]["exec"]["command"]
        enter = ["nsenter", "--target", str(self.inside(pod)), "--pid"]
        return subprocess.run([*enter, PROGRAMS[words[0]], *words[1:], "--socket", socket], capture_output=True, check=False,
                              timeout=60 * harness.SLOW).returncode

    def wait_until_ready(self, pod, socket):
        limit = time.monotonic() + 20 * harness.SLOW
        while self.probe(pod, socket) != 0:
            self.assertLess(time.monotonic(), limit, str(pod))
            time.sleep(0.05)

    def long_write(self, nodes, sockets, seconds):
        """A server and a client, both under way."""
        for socket in sockets:
            self.wait_for_link(socket)
        port = harness.free_port()
        programs = []
        for node, socket, host in ((nodes.names[0], sockets[0], ()), (nodes.names[1], sockets[1], ("10.199.0.1",))):
            programs.append(self.start([PROGRAMS["uroce_perf"], "write_bw", "--", "-p", port, *harness.PATIENT, "--verify", "-s", "65536", "-D",
                                        seconds, "--daemon", "--socket", socket, *host], node))
        for one in programs:
            one.wait_for("#bytes", 60)
        return programs

    def rights(self):
        added = ["+" + name.lower() for name in container("uroced")["securityContext"]["capabilities"]["add"]]
        self.assertEqual(container("uroced")["securityContext"]["capabilities"]["drop"], ["ALL"])
        return ["setpriv", "--no-new-privs", "--bounding-set=" + ",".join(["-all", *added]), "--inh-caps=-all"]

    @staticmethod
    def words():
        return [word.replace("$(INTERFACE)", "c0") for word in container("uroced")["command"][1:]]

    def daemon(self, node, socket):
        socket.parent.mkdir()
        program = self.start([*self.rights(), PROGRAMS["uroced"], *self.words(), "--socket", socket], node)
        program.wait_for("serving", 60)
        self.wait_for_link(socket)
        return program

    def wait_for_link(self, socket):
        limit = time.monotonic() + 20 * harness.SLOW
        while True:
            done = subprocess.run([PROGRAMS["uroce"], "devices", "--socket", socket], capture_output=True, text=True, timeout=60 * harness.SLOW,
                                  check=True)
            if " up " in done.stdout:
                return
            self.assertLess(time.monotonic(), limit, done.stdout)
            time.sleep(0.05)

    def program(self, pod, node, socket):
        spec = next(spec for _, name, spec in pods() if name == pod)
        user = spec["securityContext"]["runAsUser"]
        rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
        words = [word.replace("write-bw", "10.199.0.1") if word == "write-bw" else word for word in container(pod)["command"][1:]]
        return self.start([*rights, PROGRAMS["uroce-run"], *words], node, {"UROCE_SOCKET": str(socket)})


if __name__ == "__main__":
    harness.main()
