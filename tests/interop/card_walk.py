"""The walk of config/cards.md, in the guest."""

import re

import card_cases
import harness
import programs


class Walk(harness.Case):
    """config/cards.md takes a newcomer from a VM with a second card to ib_write_bw: each of its commands, in the guest."""

    # The programs are not installed here, and the modules are loaded already.
    SETUP = ("PATH=$PATH:{0}/apps/uroced:{0}/apps/uroce:{0}/apps/uroce-run; export TMPDIR=/run; cd /run; "
             "modprobe() {{ [ -e /sys/module/$1 ]; }}; ").format(harness.BUILD)

    def commands(self):
        """The section's commands, one after the other."""
        text = (harness.SOURCE / "config" / "cards.md").read_text()
        section = re.search(r"## From a VM with a second card.*?\n## ", text, re.S)[0]
        found = [line.strip() for block in re.findall(r"```\n(.*?)```", section, re.S) for line in block.splitlines() if line.strip()]
        return found

    def start_line(self, line):
        return card_cases.rig().guest.start(self.SETUP + line, 120)

    def test_from_a_second_card_to_ib_write_bw(self):
        card = card_cases.rig().cards["virtio"][0]
        self.assertEqual(card.pci, "0000:00:08.0", "as in the document")
        card_cases.rig().bind(card, "virtio-pci")
        card_cases.rig().connect_guests()
        card_cases.rig().rxe_guest.run("ip addr add 192.0.2.12/24 dev eth1")
        self.addCleanup(card_cases.rig().rxe_guest.run, "ip addr del 192.0.2.12/24 dev eth1")
        daemon = None
        for line in self.commands():
            with self.subTest(line):
                if line.endswith("&"):
                    daemon = self.start_line(f"exec {line.removesuffix('&')} 2>&1")
                    daemon.wait_for("serving uroce0", 60)
                elif line == "kill %1":
                    card_cases.rig().guest.run(f"kill {daemon.pid}")
                    self.assertEqual(daemon.finish(), 0, str(daemon))
                elif line.startswith("uroce-run"):
                    self.run_with_peer(line)
                else:
                    self.check(self.start_line(line), line)
        driver = card_cases.rig().guest.run(f"basename $(readlink /sys/bus/pci/devices/{card.pci}/driver)").strip()
        self.assertEqual(driver, "virtio-pci")

    def check(self, remote, line):
        self.assertEqual(remote.finish(), 0, str(remote))
        if line == "uroced --check":
            self.assertIn("card 0000:00:08.0: not ready: virtio-net (net_virtio); the kernel's driver virtio-pci has it",
                          remote.output)
        if line == "uroce devices":
            self.assertRegex(remote.output, r"uroce0 .*up")

    def run_with_peer(self, line):
        server = self.start_line(line)
        card_cases.rig().guest.run(f"until grep -q ':{programs.PORT:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done", 30)
        gid = card_cases.rig().rxe_guest.run("grep -l 0000:ffff:c000:020c /sys/class/infiniband/rxe1/ports/1/gids/*").split("/")[-1].strip()
        client = card_cases.rig().rxe_guest.start(f"ib_write_bw -x {gid} -m 1024 -n 200 -F {card_cases.rig().guest.commands[1]}", 120)
        self.assertEqual(client.finish(), 0, f"{client}\n{server}")
        self.assertEqual(server.finish(), 0, str(server))
        self.assertRegex(server.output, programs.BANDWIDTH)
