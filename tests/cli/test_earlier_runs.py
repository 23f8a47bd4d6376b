"""Run folders that an earlier version wrote can be used as if they were of today."""

import json
import shutil
import unittest

from program import SOURCE, ProgramTest, read_checkpoint

FROZEN = SOURCE / "tests/fixtures/run-folders"


class EarlierRuns(ProgramTest):
    # What the version that wrote them made of them: the measure of success now, and at the end of the training.
    RUNS = {"synthetic": {"metric": "mse", "now": 0.069685176, "end": 0.060283497, "steps": 4000},
            "language": {"metric": "perplexity", "now": 13.198158, "end": 12.983627, "steps": 80}}

    def setUp(self):
        super().setUp()
        for name in (*self.RUNS, "text"):
            shutil.copytree(FROZEN / name, self.folder / name)

    def assert_near(self, value, expected):
        # Other processors round otherwise, and a training repeats that many times.
        self.assertAlmostEqual(value / expected, 1, delta=0.03)

    def test_eval(self):
        for name, known in self.RUNS.items():
            for which in ("newest", "best"):
                found, _ = self.evaluate(name, "--checkpoint", which)
                self.assertIn(known["metric"], found)
            found, _ = self.evaluate(name)
            self.assertAlmostEqual(found[known["metric"]] / known["now"], 1, places=4)

    def test_resume(self):
        for name, known in self.RUNS.items():
            before = self.metrics(name)
            result = self.deq("train", "--resume", name, "--json")
            end = json.loads(result.stdout)
            self.assertEqual(end["step"], known["steps"])
            self.assert_near(end[known["metric"]], known["end"])
            self.assertEqual(self.metrics(name)[:len(before)], before)
            self.assertNotIn("gone", result.stderr)
            self.assertNotIn("lost", result.stderr)

    def test_report(self):
        self.deq("report", *self.RUNS, "--out", "page.html")
        page = (self.folder / "page.html").read_text()
        for name in self.RUNS:
            self.assertIn(f'"name":"{name}"', page)

    def test_convert(self):
        for name in self.RUNS:
            checkpoint = self.checkpoints(name)[-1]
            self.deq("convert", checkpoint, "--like", name, "--out", f"{name}-again")
            before, after = read_checkpoint(checkpoint)[0], self.weights(f"{name}-again")
            self.assertTrue(after)
            for key, tensor in after.items():
                self.assertEqual(tensor, before[key], key)

    def test_generate_without_the_text(self):
        shutil.rmtree(self.folder / "text")
        text = self.deq("generate", "language", "--prompt", "w03", "--words", "5").stdout
        self.assertGreaterEqual(len(text.split()), 2)


if __name__ == "__main__":
    unittest.main()
