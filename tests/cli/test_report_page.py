"""The report in a real browser, where there is one: every plot is drawn, and nothing complains."""

import html
import json
import re
import shutil
import subprocess
import unittest

from program import ProgramTest
from run_folders import train_line, valid_line, write_run
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
# Puts an answer into the page, once all is drawn.
QUESTION = """<script>
const timer = setInterval(async () => {
  if (!document.documentElement.dataset.ready) return;
  clearInterval(timer);
  const plotOf = (split, key) => document.querySelector(`figure[data-split="${split}"][data-key="${key}"] .plot`);
  document.body.dataset.said = JSON.stringify(await (%s)());
}, 50);
</script></body>"""
FLAT = ["--disable-3d-apis"]  # faster; surfaces are then drawn as contours
SOLID = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # WebGL without a GPU


class PageTest(ProgramTest):
    def browse(self, page, *options, graphics=FLAT):
        """What the browser makes of the page; nothing may be said on its console."""
        result = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", *graphics, "--virtual-time-budget=12000",
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

    def said(self, dom):
        said = re.search(r'data-said="([^"]*)"', dom)
        self.assertIsNotNone(said, dom[-500:])
        return json.loads(html.unescape(said[1]))

    def write_with_script(self, page, script, name):
        text = (self.folder / page).read_text()
        end = text.rindex("</body>")
        (self.folder / name).write_text(text[:end] + script + text[end + len("</body>"):])

    def ask(self, page, function, **more):
        """What a JavaScript function without arguments returns on the drawn page."""
        self.write_with_script(page, QUESTION % function, "asked.html")
        return self.said(self.browse("asked.html", "--dump-dom", **more))

    def sections(self, dom):
        """The ids of the sections that are shown."""
        return [re.search(r'id="([^"]+)"', tag)[1] for tag in re.findall(r"<section[^>]*>", dom) if "hidden" not in tag]

    def assert_fits_a_phone(self, page):
        self.write_with_script(page, PROBE, "framed.html")
        (self.folder / "frame.html").write_text(FRAME.format(width=PHONE))
        measured = self.said(self.browse("frame.html", "--dump-dom"))
        self.assertEqual(measured["width"], PHONE)
        self.assertLessEqual(measured["content"], measured["room"], measured["wide"])

    def assert_prints(self, page):
        file = self.folder / "page.pdf"
        self.browse(page, f"--print-to-pdf={file}", "--no-pdf-header-footer")
        self.assertTrue(file.read_bytes().startswith(b"%PDF"))
        self.assertGreater(file.stat().st_size, 30_000)  # plots are in it, not only text


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


    def test_draws_surfaces_in_three_dimensions(self):
        self.train("run")
        drawn = self.ask("run/report.html", """() => {
          const plot = document.querySelector('#surfaces .plot');
          const { glplot } = plot._fullLayout.scene._scene;
          glplot.redraw(); // what was drawn can only be read in the same task
          const { gl } = glplot;
          const pixels = new Uint8Array(4 * gl.drawingBufferWidth * gl.drawingBufferHeight);
          gl.readPixels(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
          return { colours: new Set(new Uint32Array(pixels.buffer)).size, error: gl.getError(),
            types: plot.data.map((trace) => trace.type), contours: !document.getElementById('flat').hidden };
        }""", graphics=SOLID)
        self.assertGreater(drawn["colours"], 1000)  # the shades of a surface
        self.assertEqual(drawn["error"], 0)
        self.assertIn("surface", drawn["types"])
        self.assertFalse(drawn["contours"])


@unittest.skipUnless(BROWSER, "no Chromium on this machine")
class Curves(PageTest):
    def report(self, **runs):
        for name, lines in runs.items():
            write_run(self.folder / name, lines)
        self.deq("report", *runs, "--out", "page.html")

    def test_a_puzzle_is_drawn_wherever_its_answer_changes(self):
        right, wrong, early = "1234341221434321", "1234341221434322", "2234341221434322"
        self.report(run=[train_line(5), valid_line(5, puzzle_question="..343412........", puzzle_answer=right,
                                                   puzzle_way=f"{early} {wrong} {wrong} {right}")])
        titles, struck, given = self.ask("page.html", """() => [
          [...document.querySelectorAll('#puzzle figcaption')].map((node) => node.textContent),
          [...document.querySelectorAll('#puzzle figure')].map((node) => node.querySelectorAll('s').length),
          document.querySelectorAll('#puzzle figure:last-child .given').length]""")
        self.assertEqual(titles, ["The question", "After 1", "After 2", "After 4"])
        self.assertEqual(struck, [0, 2, 1, 0])
        self.assertEqual(given, 6)

    def test_a_maze_is_drawn_with_what_its_path_lacks(self):
        question, right = "S  /## /G  /# #", "Soo/##o/Goo/# #"
        early, late = "S o/#o /Goo/# #", "Soo/##o/Go /# #"
        self.report(run=[train_line(5), valid_line(5, puzzle_question=question, puzzle_answer=right,
                                                   puzzle_way=f"{early} {late} {late} {right}")])
        titles, counts, rows = self.ask("page.html", """() => {
          const figures = [...document.querySelectorAll('#puzzle figure')];
          const count = (node, kind) => node.querySelectorAll(kind).length;
          return [figures.map((node) => node.querySelector('figcaption').textContent),
            figures.map((node) => ['.wall', '.path', '.missed', '.wrong'].map((kind) => count(node, kind))),
            figures.map((node) => [count(node, 'tr'), count(node, 'td'), node.textContent.slice(-2)])];
        }""")
        self.assertEqual(titles, ["The question", "After 1", "After 2", "After 4"])
        self.assertEqual(counts, [[4, 0, 0, 0], [3, 4, 2, 1], [4, 4, 1, 0], [4, 5, 0, 0]])
        self.assertEqual(rows, 4 * [[4, 12, "SG"]])

    def test_few_points_get_markers_and_many_a_line(self):
        self.report(short=[train_line(5), valid_line(5)], long=[train_line(step) for step in range(30)])
        modes, points, room = self.ask("page.html", """() => [plotOf('train', 'loss').data.map((trace) => trace.mode),
          plotOf('train', 'loss').querySelectorAll('.point').length, plotOf('valid', 'residual')._fullLayout.yaxis.range]""")
        self.assertEqual(modes, ["lines+markers", "lines"])
        self.assertEqual(points, 1)
        self.assertLessEqual(room[1], 1e-3)  # the only residual is 1e-4, and can be read off the axis

    def test_a_share_that_a_line_leaves_out_is_zero(self):
        self.report(run=[train_line(1), train_line(2, **{"stopped.max_evaluations": 1.0}),
                         train_line(3, **{"stopped.converged": 0.25, "stopped.max_evaluations": 0.75})],
                    never=[train_line(1, **{"stopped.max_evaluations": 1.0})])
        shares = self.ask("page.html", "() => plotOf('train', 'stopped.converged').data.map((trace) => [...trace.y])")
        self.assertEqual(shares, [[None, 0, 0.25], [0]])  # the first line is not of a solve

    def test_an_explicit_network_has_no_gamma(self):
        lines = [{name: value for name, value in line.items() if name != "nfe_forward"}
                 for line in (train_line(5), valid_line(5))]
        self.report(explicit=lines, equilibrium=[train_line(5), valid_line(5)])
        labels = self.ask("page.html", "() => [...document.querySelectorAll('#training .legend button')].map((b) => b.textContent)")
        self.assertEqual(labels, ["explicit", "equilibrium"])
        traces = self.ask("page.html", "() => plotOf('train', 'gamma').data.map((trace) => trace.meta)")
        self.assertEqual(traces, ["run1"])

    def labels(self, **configs):
        """What the legend calls runs that differ in these lines of their configuration."""
        for name, config in configs.items():
            write_run(self.folder / name, [train_line(5), valid_line(5)], config=config)
        self.deq("report", *configs, "--out", "page.html")
        return self.ask("page.html", "() => [...document.querySelectorAll('#training .legend button')].map((b) => b.textContent)")

    def test_runs_are_called_by_gamma_where_nothing_else_differs(self):
        self.assertEqual(self.labels(a="[jacobian]\ngamma = 0.5\n", b="[jacobian]\ngamma = 2.0\n"), ["γ = 0.5", "γ = 2"])
        self.assertEqual(self.labels(c="[jacobian]\ngamma = 0.5\n", d="[jacobian]\ngamma = 2.0\n[train]\nlr = 0.1\n"),
                         ["c", "d"])
        self.assertEqual(self.labels(e="[jacobian]\ngamma = 0.5\n"), ["e"])

    def test_steps_are_whole_numbers(self):
        self.report(run=[train_line(1), train_line(2), train_line(3)], long=[train_line(1000), train_line(4000)])
        ticks = "() => [...plotOf('train', 'loss').querySelectorAll('.xtick')].map((tick) => tick.textContent)"
        for runs in (["run"], ["run", "long"]):
            self.deq("report", *runs, "--out", "page.html")
            shown = self.ask("page.html", ticks)
            self.assertGreater(len(shown), 1)
            self.assertEqual(len(set(shown)), len(shown))
            for tick in shown:
                self.assertRegex(tick, r"^[0-9,]+$")

    def test_evaluations_are_those_of_synthetic_runs(self):
        self.report(gamma=[train_line(4), valid_line(4, mse=0.1, **{"nfe_to_1e-3.picard": 10.0})],
                    images=[train_line(4), valid_line(4)])
        bars = self.ask("page.html", "() => document.querySelector('#evaluations figure .plot').data.map((trace) => trace.x)")
        for labels in bars:
            self.assertEqual(labels, ["gamma"])

    def test_curves_over_seconds(self):
        self.report(run=[train_line(4), train_line(8)])
        over = self.ask("page.html", """async () => {
          const state = () => [plotOf('train', 'loss').layout.xaxis.title.text, [...plotOf('train', 'loss').data[0].x]];
          const before = state();
          document.querySelector('[data-over="seconds"]').click();
          await new Promise((resume) => { setTimeout(resume, 500); });
          return [before, state(), document.querySelector('[data-over="seconds"]').getAttribute('aria-pressed')];
        }""")
        self.assertEqual(over, [["step", [4, 8]], ["seconds, validations included", [1, 2]], "true"])

    def test_ten_runs_have_ten_colours(self):
        self.report(**{f"run{k}": [train_line(5), valid_line(5)] for k in range(10)})
        colours = self.ask("page.html", "() => plotOf('train', 'loss').data.map((trace) => trace.line.color)")
        self.assertEqual(len(set(colours)), 10)
        self.assertNotIn("", colours)

    def test_bars_are_labelled_with_their_runs(self):
        self.report(first=[valid_line(5)])
        bars = {"title": "Cost", "kind": "bars", "series": [{"label": name, "x": [], "y": [3]} for name in ("first", "another")]}
        page = (self.folder / "page.html").read_text()
        extras = json.dumps({"about": "", "tables": [], "figures": [bars]})
        (self.folder / "page.html").write_text(page.replace('"extras":null', f'"extras":{extras}'))
        labels = self.ask("page.html", "() => [...document.querySelectorAll('#reproduction .xtick')].map((tick) => tick.textContent)")
        self.assertEqual(labels, ["first", "another"])

    def test_the_norm_of_the_summary_has_its_subscript(self):
        self.report(run=[valid_line(5)])
        self.assertIn("‖J‖<sub>F</sub></th>", self.drawn("page.html"))

    def test_runs_of_one_machine_share_a_column(self):
        machine = {"device": "cpu", "CPU": "a certain CPU"}
        for name, started in (("first", "2026-11-15T08:00:00Z"), ("second", "2026-11-16T09:30:00Z")):
            write_run(self.folder / name, [valid_line(5)], environment={**machine, "started": started})
        self.deq("report", "first", "second", "--out", "page.html")
        cells = self.ask("page.html", "() => [...document.querySelectorAll('#environment tr')].map((tr) => [...tr.cells].map((c) => c.textContent))")
        self.assertEqual(cells[0], ["Key", "All runs", "This page"])
        self.assertIn(["started", "2026-11-15 08:00:00 UTC to 2026-11-16 09:30:00 UTC", "–"], cells)


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
