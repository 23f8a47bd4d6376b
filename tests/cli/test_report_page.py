"""The report in a real browser, where there is one: every plot is drawn, and nothing complains."""

import json
import re
import shutil
import subprocess
import unittest

from program import ProgramTest
from test_language import LanguageTest
from test_vision import VisionTest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = 390  # pixels; a window of its own cannot be as narrow, a frame can

FRAME = """<!DOCTYPE html><body><iframe src="framed.html" style="width:{width}px; height:800px; border:0"></iframe>
<script>addEventListener('message', ({{ data }}) => {{ document.body.dataset.said = data; }});</script></body>"""
# Reports to the frame around it how wide the page is, once all is drawn, and what sticks out of it.
PROBE = """<script>
const timer = setInterval(() => {
  if (!document.documentElement.dataset.ready) return;
  clearInterval(timer);
  const wide = [...document.querySelectorAll('main *, header *')].filter((e) => !e.closest('.scroll, pre, .plot')
    && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80));
  const { clientWidth: room, scrollWidth: content } = document.documentElement;
  parent.postMessage(JSON.stringify({ width: innerWidth, room, content, wide }), '*');
}, 50);
</script></body>"""


class PageTest(ProgramTest):
    def browse(self, page, *options):
        """What the browser makes of the page; nothing may be said on its console."""
        result = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-3d-apis", "--virtual-time-budget=12000",
             f"--user-data-dir={self.folder / 'profile'}", "--enable-logging=stderr", *options,
             f"file://{self.folder / page}"], capture_output=True, text=True, timeout=180)
        complaints = [line for line in result.stderr.splitlines()
                      if ":CONSOLE" in line and "willReadFrequently" not in line]
        self.assertEqual(complaints, [])
        return result.stdout

    def drawn(self, page):
        """The page after its scripts have run: all plots that were begun are there."""
        dom = self.browse(page, "--dump-dom")
        self.assertIn('data-ready="true"', dom)
        plots = re.findall(r'<div class="(plot [^"]*)"', dom)
        self.assertTrue(plots)
        self.assertEqual([plot for plot in plots if "js-plotly-plot" not in plot], [])
        return dom

    def sections(self, dom):
        """The ids of the sections that are shown."""
        return [re.search(r'id="([^"]+)"', tag)[1] for tag in re.findall(r"<section[^>]*>", dom) if "hidden" not in tag]

    def assert_fits_a_phone(self, page):
        text = (self.folder / page).read_text()
        end = text.rindex("</body>")
        (self.folder / "framed.html").write_text(text[:end] + PROBE + text[end + len("</body>"):])
        (self.folder / "frame.html").write_text(FRAME.format(width=PHONE))
        dom = self.browse("frame.html", "--dump-dom")
        said = re.search(r'data-said="([^"]*)"', dom)
        self.assertIsNotNone(said, dom[-500:])
        measured = json.loads(said[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
                              .replace("&amp;", "&"))
        self.assertEqual(measured["width"], PHONE)
        self.assertLessEqual(measured["content"], measured["room"], measured["wide"])

    def assert_prints(self, page):
        file = self.folder / "page.pdf"
        self.browse(page, f"--print-to-pdf={file}", "--no-pdf-header-footer")
        self.assertTrue(file.read_bytes().startswith(b"%PDF"))
        self.assertGreater(file.stat().st_size, 30_000)  # plots are in it, and not text alone


@unittest.skipUnless(BROWSER, "no Chromium on this machine")
class Synthetic(PageTest):
    def test_draws_everything_without_a_complaint(self):
        self.train("a")
        self.train("b", "--set", "jacobian.gamma=4")
        self.deq("report", "a", "b", "--out", "page.html")
        dom = self.drawn("page.html")
        # Two surfaces, two runs × three slices, the fit, the costs, two slopes and the curves.
        self.assertGreaterEqual(dom.count('class="main-svg"'), 15)
        self.assertEqual(self.sections(dom), ["summary", "surfaces", "slices", "fit", "evaluations", "figure4", "traces",
                                              "training", "configuration", "environment"])
        self.assert_fits_a_phone("page.html")
        self.assert_prints("page.html")


@unittest.skipUnless(BROWSER, "no Chromium on this machine")
class Vision(PageTest, VisionTest):
    def test_shows_accuracy_and_budgets(self):
        budgets = ["--set", "train.eval_budgets=[1,4]", "--set", "train.epochs=2"]
        self.train_squares("with", *budgets)
        self.train_squares("without", *budgets, "--set", "jacobian.gamma=0")
        self.deq("report", "with", "without", "--out", "page.html")
        dom = self.drawn("page.html")
        self.assertEqual(self.sections(dom), ["summary", "sweep", "traces", "training", "configuration", "environment"])
        self.assertIn("Accuracy, %</th>", dom)
        self.assertIn("<strong>The last validation of each</strong>", dom)
        for title in ("Validation accuracy, %", "Share stopped by the budget", "Forward residual, median",
                      "Spectral radius ρ, validation", "Peak memory, MiB"):
            self.assertIn(f"<strong>{title}</strong>", dom)
        self.assertNotIn("one-dimensional deep equilibrium model", re.sub(r"<p [^>]*hidden.*?</p>", "", dom, flags=re.S))
        self.assert_fits_a_phone("page.html")
        self.assert_prints("page.html")


@unittest.skipUnless(BROWSER, "no Chromium on this machine")
class Language(PageTest, LanguageTest):
    def test_shows_perplexity(self):
        self.train_rule("run", "--set", "train.eval_budgets=[2]")
        self.assertTrue((self.folder / "run/report.html").exists())
        dom = self.drawn("run/report.html")
        self.assertEqual(self.sections(dom), ["summary", "sweep", "traces", "training", "configuration", "environment"])
        self.assertIn("Perplexity</th>", dom)
        self.assertIn("<strong>Validation perplexity</strong>", dom)
        shutil.copy(self.folder / "run/report.html", self.folder / "page.html")
        self.assert_fits_a_phone("page.html")


if __name__ == "__main__":
    unittest.main()
