#!/usr/bin/env python3
"""The documents' commands for two hosts, word for word: the README's "Between two hosts", and config/containers.md's pods and
compose.yaml. Namespaces are the hosts; each has an eth0, joined to the other's, and a /run of its own."""

import os
import re
import shlex
import shutil
import subprocess
import unittest

import harness
import verbs

try:
    import yaml
except ImportError:
    yaml = None

PATH = ":".join(str(harness.BUILD / "apps" / name) for name in ("uroced", "uroce", "uroce-run"))
FIRST, SECOND = "192.0.2.1", "192.0.2.2"
TABLE = r"\n *65536 +5000 +[\d.]+ "
USER = 61234  # nobody else's

# $first and $second are the commands of the two hosts, $only what limits their rights. Ends as the second.
HOSTS = f"""set -e
export PATH={PATH}:$PATH
unshare --net --mount sleep 300 & peer=$!
trap 'kill $(jobs -p) 2> /dev/null' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
within="nsenter --preserve-credentials -t $peer -n -m"
ip link add eth0 type veth peer name eth0 netns $peer
$within ip addr add {FIRST}/24 dev eth0
ip addr add {SECOND}/24 dev eth0
for host in "" "$within"; do
  $host ip link set lo up
  $host ip link set eth0 up
  $host mount -t tmpfs tmpfs /run
  $host mount --bind $directory/hosts /etc/hosts
done
$only grep CapEff /proc/self/status
"""
# The second waits as a person does who starts one program after the other.
BOTH = """
$within $only bash -c "$first" > $directory/first.log 2>&1 & server=$!
until $within ss -Htln sport = :18515 | grep -q .; do kill -0 $server || { cat $directory/first.log; exit 1; }; sleep 0.05; done
$only bash -c "$second"
wait $server
"""


def blocks(document):
    """The literal blocks of a document, with what stands before each."""
    parts = (harness.SOURCE / document).read_text(encoding="utf-8").split("\n```\n")
    return list(zip(parts[::2], parts[1::2]))


def block_under(document, heading):
    """The first block under a heading."""
    return next(block for before, block in blocks(document) if f"\n{heading}\n" in before or before.startswith(heading))


def block_with(document, begin):
    return next(block for _, block in blocks(document) if block.startswith(begin))


def can(*command):
    return subprocess.run(command, capture_output=True, timeout=30 * harness.SLOW, check=False).returncode == 0


AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "unshare", "--user", "--map-root-user", "--net",
           "--mount")


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ib_write_bw") and harness.may_make_namespaces(),
                     "needs root, network namespaces and perftest")
class Hosts(harness.Case):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o777)
        (self.directory / "hosts").write_text(f"127.0.0.1 localhost\n{FIRST} server\n")

    def run_hosts(self, script, before=("unshare", "--net", "--mount"), only="", tries=5, **variables):
        """The output of the script after HOSTS. Once more where perftest could not calibrate the processor's clock."""
        settings = {"directory": self.directory, "only": only, **variables}
        text = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items()) + HOSTS + script
        program = self.start([*before, "bash", "-c", text])
        code = program.wait(90)
        logs = program.output + "".join(path.read_text() for path in self.directory.glob("first.log"))
        if verbs.CLOCK_UNKNOWN in logs and tries > 1:
            return self.run_hosts(script, before, only, tries - 1, **variables)
        self.assertEqual(code, 0, f"{program}\n--- the first\n{logs}")
        return program.output


class Readme(Hosts):
    """The lines under the README's "Between two hosts"."""

    def commands(self):
        """The lines that the two hosts type."""
        into_path, daemon, first, second = [line.split("  #")[0].strip() for line in
                                            block_under("README.md", "## Between two hosts").splitlines()]
        self.assertEqual(into_path, ". config/env.sh")
        self.assertTrue(daemon.endswith("&"), daemon)
        self.assertIn(FIRST, second)
        wait = f"{daemon} daemon=$!\nuntil uroce devices > /dev/null 2>&1; do kill -0 $daemon || exit; sleep 0.1; done\n"
        return {name: f"{wait}{line}; code=$?\nkill $daemon; wait $daemon; exit $code\n"
                for name, line in (("first", first), ("second", second))}

    def test_as_root(self):
        self.assertRegex(self.run_hosts(BOTH, **self.commands()), TABLE)

    @unittest.skipUnless(can(*AS_USER, "ip", "link", "add", "d0", "type", "veth"), "this machine allows no user namespaces with veth pairs")
    def test_as_a_user_with_one_capability(self):
        output = self.run_hosts(BOTH, AS_USER, "setpriv --no-new-privs --bounding-set=-all,+net_raw --inh-caps=-all",
                                **self.commands())
        self.assertIn("CapEff:\t0000000000002000", output)
        self.assertRegex(output, TABLE)

    def test_benchmarks_without_a_daemon(self):
        text = (harness.SOURCE / "README.md").read_text(encoding="utf-8")
        first, second = re.search(r"Without the daemon, `([^`]+)` and `([^`]+)` do the same", text).groups()
        commands = [line.replace("uroce_write_bw", f"{harness.PERF} write_bw") for line in (first, second)]
        self.assertEqual(commands[1], f"{commands[0]} {FIRST}")
        script = BOTH.replace("18515", str(harness.free_port()))
        port = re.search(r"sport = :(\d+)", script).group(1)
        commands = [line.replace(" -- ", f" -- -p {port} ") for line in commands]
        self.assertRegex(self.run_hosts(script, first=commands[0], second=commands[1]), r"\n *65536 +\d+ ")


def rights(container):
    """setpriv's words for a container: all capabilities dropped but those that it adds."""
    context = container["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"] and context["allowPrivilegeEscalation"] is False
    return limited(context["capabilities"].get("add", []))


def limited(added):
    return f"setpriv --no-new-privs --bounding-set={','.join(['-all', *('+' + name.lower() for name in added)])} --inh-caps=-all"


# As a container has it: the processes see no others, and end with the first one.
ALONE = "unshare --pid --fork --kill-child --mount-proc"


@unittest.skipUnless(yaml, "python3-yaml is missing; config/packages.txt names it")
class Containers(Hosts):
    """config/containers.md's pod with a daemon of its own, and its compose.yaml."""

    def test_a_pod_with_a_daemon_of_its_own(self):
        daemon, program = yaml.safe_load(block_with("config/containers.md", "apiVersion: v1\nkind: Pod\n"))["spec"]["containers"]
        self.assertEqual(rights(daemon), limited(["NET_RAW"]))
        self.assertEqual(rights(program), limited([]))
        served = f"{ALONE} {rights(daemon)} {shlex.join(daemon['command'])}"
        runs = [*ALONE.split(), *rights(program).split(), *program["command"]]


        def pod(*last):
            # Kubernetes starts a container anew that has ended.
            return (f"mkdir /run/uroce\n{served} & daemon=$!\n"
                    f"for try in $(seq 300); do {shlex.join([*runs, *last])} && done=yes && break; sleep 0.1; done\n"
                    "kill -KILL $daemon; wait $daemon; [ $done ]\n")
        output = self.run_hosts(BOTH, first=pod(), second=pod(FIRST))
        self.assertRegex(output, TABLE)

    def test_compose(self):
        services = yaml.safe_load(block_with("config/containers.md", "x-host: &host\n"))["services"]

        def command(name):
            service = services[name]
            self.assertEqual((service["cap_drop"], service["cap_add"]), (["ALL"], ["NET_RAW"]))
            words = [word.replace("$$", "$") for word in [*service["entrypoint"], *service["command"]]]
            return f"exec {ALONE} {limited(service['cap_add'])} {shlex.join(words)}"
        self.assertEqual(services["client"]["command"], [*services["server"]["command"], "server"])
        self.assertRegex(self.run_hosts(BOTH, first=command("server"), second=command("client")), TABLE)


if __name__ == "__main__":
    harness.main()
