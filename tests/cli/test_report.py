"""What a report says about its runs, read from the data in the page."""

import datetime
import json
import os
import pathlib
import platform
import re
import unittest

from program import ProgramTest
from run_folders import train_line, valid_line, write_run


class ReportTest(ProgramTest):
    def runs(self, *names):
        """What the page holds on these run folders."""
        self.deq("report", *names, "--out", "page.html")
        page = (self.folder / "page.html").read_text()
        return json.loads(re.search(r'id="deq-data">(.*?)</script>', page, re.DOTALL)[1])["runs"]

    def run_with(self, *lines, **more):
        """The same of one run with these metrics."""
        name = f"run{len(list(self.folder.iterdir()))}"
        write_run(self.folder / name, lines, **more)
        return self.runs(name)[0]


class Title(ReportTest):
    def test_one_that_looks_like_a_page(self):
        write_run(self.folder / "run", [train_line(4), valid_line(4)])
        title = "<!--<script>a</script>"
        self.deq("report", "run", "--out", "page.html", "--title", title)
        page = (self.folder / "page.html").read_text()
        data = re.search(r'id="deq-data">(.*?)</script>', page, re.DOTALL)[1]
        self.assertNotIn("<", data)
        self.assertEqual(json.loads(data)["title"], title)


class Environment(ReportTest):
    def test_a_run_says_what_it_was_trained_on_and_when(self):
        before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        self.train("run")
        written = json.loads((self.folder / "run/environment.json").read_text())
        model = re.search(r"^model name\s*:\s*(.*\S)", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        self.assertEqual(written.get("CPU"), model and model[1])
        self.assertEqual(written["cores"], str(len(os.sched_getaffinity(0))))
        self.assertIn(f"Linux {platform.release()}", written["system"])
        started = datetime.datetime.fromisoformat(written["started"].replace("Z", "+00:00"))
        self.assertLessEqual(before, started)
        self.assertLessEqual(started, datetime.datetime.now(datetime.timezone.utc))
        self.assertNotIn("GPU", written)
        self.assertEqual(self.runs("run")[0]["environment"], written)

    def test_runs_of_earlier_versions_are_shown(self):
        self.assertEqual(self.run_with(valid_line(4))["environment"], {})
        old = {"libdeq": "0.9", "device": "cpu"}
        self.assertEqual(self.run_with(valid_line(4), environment=old)["environment"], old)


class Warnings(ReportTest):
    def assert_warned(self, run, *patterns):
        self.assertEqual(len(run["warnings"]), len(patterns), run["warnings"])
        for pattern, warning in zip(patterns, run["warnings"]):
            self.assertRegex(warning, pattern)

    def test_none_for_a_healthy_run(self):
        healthy = train_line(4, adjoint_residual=0.05, skipped_steps=0, rollbacks=0)
        self.assert_warned(self.run_with(healthy, valid_line(4, rho=0.99)))

    def test_only_the_end_counts_for_what_can_recover(self):
        bad = [train_line(1, adjoint_residual=0.5), valid_line(1, rho=2, residual=0.5)]
        good = [train_line(2, adjoint_residual=0.05), valid_line(2)]
        self.assert_warned(self.run_with(*bad, *good))
        self.assert_warned(self.run_with(*good, *bad), r"residual is above 1%.*jacobian\.gamma",
                           r"ρ was 2 .*Broyden", r"adjoint.*0\.5.*solver\.adjoint")

    def test_a_spectral_radius_of_one_is_warned_of(self):
        self.assert_warned(self.run_with(valid_line(4, rho=1.0)), "ρ was 1 at the last validation")

    def test_samples_that_failed(self):
        lines = [train_line(10, **{"stopped.diverged": 0.25}), train_line(20, **{"stopped.diverged": 0.125}),
                 train_line(30, **{"stopped.non_finite": 0.5}), train_line(40)]
        self.assert_warned(self.run_with(*lines), r"diverged, up to 25%.*last at step 20.*line_search",
                           r"not finite, for up to 50%.*last at step 30.*train\.lr")

    def test_skipped_steps(self):
        self.assert_warned(self.run_with(train_line(4, skipped_steps=3, rollbacks=1)),
                           r"not finite: 3, returns to a checkpoint: 1")


class Metrics(ReportTest):
    def test_lines_that_have_nothing_in_common(self):
        write_run(self.folder / "run", [{"split": "train", f"name{i}": 1} for i in range(3000)])
        message = self.refused("report", "run", "--out", "page.html", status=1)
        self.assertIn("3000 lines of the split \"train\" have 3001 different names", message)


class Labels(ReportTest):
    def gamma(self, config):
        return self.run_with(valid_line(4), config=config)["gamma"]

    def test_gamma_is_described_over_the_whole_training(self):
        self.assertEqual(self.gamma("[jacobian]\ngamma = 2.0\n"), "2")
        self.assertEqual(self.gamma("[jacobian]\ngamma = 1e30\n"), "1e+30")
        linear = 'gamma = { schedule = "linear", from = 0.0, to = 0.5, begin = 0, end = 10 }'
        self.assertEqual(self.gamma(f"[jacobian]\n{linear}\nstop_epoch = 3\n"), "0 → 0.5 until epoch 3")
        held = '[jacobian.control]\nhold = "{}"\ntarget = 0.8\n'
        self.assertEqual(self.gamma("[jacobian]\ngamma = 0.2\n" + held.format("rho")), "from 0.2, steered to ρ = 0.8")

    def test_the_summary_holds_numbers_alone(self):
        summary = self.run_with(valid_line(4, residual_trace=[0.5, 0.1]))["summary"]
        self.assertEqual(summary["accuracy"], 50)
        self.assertNotIn("split", summary)
        self.assertNotIn("residual_trace", summary)


if __name__ == "__main__":
    unittest.main()
