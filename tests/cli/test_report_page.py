"""The report in a real browser, where there is one: every plot is drawn, and nothing complains."""

import shutil
import subprocess
import unittest

from program import ProgramTest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@unittest.skipUnless(BROWSER, "no Chromium on this machine")
class Page(ProgramTest):
    def test_draws_everything_without_a_complaint(self):
        self.train("a")
        self.train("b", "--set", "jacobian.gamma=4")
        self.deq("report", "a", "b", "--out", "page.html")
        result = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-3d-apis", "--virtual-time-budget=8000",
             f"--user-data-dir={self.folder / 'profile'}", "--enable-logging=stderr", "--dump-dom",
             f"file://{self.folder / 'page.html'}"], capture_output=True, text=True, timeout=120)
        self.assertIn('data-ready="true"', result.stdout)
        # Two surfaces, two runs × three slices, the fit, the costs, two slopes and the curves.
        self.assertGreaterEqual(result.stdout.count('class="main-svg"'), 15)
        complaints = [line for line in result.stderr.splitlines()
                      if ":CONSOLE" in line and "willReadFrequently" not in line]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    unittest.main()
