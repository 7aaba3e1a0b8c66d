"""`uroce ping` to rxe: the connection manager of Linux answers, and nothing else listens."""

import subprocess

import harness
import rig as rigs

CLI = harness.BUILD / "apps" / "uroce" / "uroce"


class Ping(harness.Case):
    def test_rxe_answers_for_its_connection_manager(self):
        for address in rigs.addresses(1, "guest")[:2]:
            with self.subTest(address):
                done = subprocess.run([CLI, "ping", address, "--count", "3", "--socket", rigs.rig().env["UROCE_SOCKET"]],
                                      capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"{address} by device uroce0", done.stdout)
                self.assertRegex(done.stdout, "UD, connection manager: 3 of 3 answered")
                self.assertIn("RC: nobody answers", done.stdout)
