"""Run folders that somebody took something from: what is missing is said, and nothing more gets lost."""

import json
import shutil
import unittest

from program import CONFIG, ProgramTest, settings

STEPS = 40
# Epochs, not steps: how many steps that are is not written in the configuration.
COMMON = settings(train__epochs=10, train__batch_size=16, train__log_every=5, train__eval_every_steps=10,
                  train__checkpoints__every_steps=5, train__checkpoints__keep=100, data__train_samples=64,
                  data__valid_samples=16)


class Gaps(ProgramTest):
    def setUp(self):
        super().setUp()
        self.deq("train", CONFIG, *COMMON, "--out", "whole", "--json")
        shutil.copytree(self.folder / "whole", self.folder / "run")
        self.run_folder = self.folder / "run"

    def keep_lines(self, until):
        """Of the metrics, those up to a step."""
        path = self.run_folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if json.loads(line)["step"] <= until))

    def remove_checkpoints(self, after):
        for path in self.checkpoints("run"):
            if path.name > f"step-{after:09}.safetensors":
                path.unlink()

    def assert_same_end(self):
        self.assertEqual(self.weights("run"), self.weights("whole"))
        self.assertEqual(self.metrics("run")[-1], self.metrics("whole")[-1])


class LostMetrics(Gaps):
    def test_the_last_evaluation_of_a_finished_run_is_made_again(self):
        for until in (20, 0):
            self.keep_lines(until)
            said = self.deq("train", "--resume", "run").stderr
            self.assertIn(f"metrics.jsonl ends at step {until}, the newest checkpoint is of step {STEPS}", said)
            self.assertIn(f"the evaluation of step {STEPS}, the last, is missing: it is made again", said)
            self.assertIn(f"already finished, step {STEPS} of {STEPS}\n", said)
            self.assert_same_end()
            result = json.loads(self.deq("train", "--resume", "run", "--json").stdout)
            self.assertEqual(result["mse"], self.metrics("whole")[-1]["mse"])

    def test_a_file_that_is_gone(self):
        (self.run_folder / "metrics.jsonl").unlink()
        self.assertIn("made again", self.deq("train", "--resume", "run").stderr)
        self.assert_same_end()

    def test_a_run_that_goes_on_says_that_its_curves_have_a_gap(self):
        self.remove_checkpoints(after=20)
        self.keep_lines(10)
        said = self.deq("train", "--resume", "run").stderr
        self.assertIn("ends at step 10, the newest checkpoint is of step 20", said)
        self.assertIn("gap", said)
        self.assert_same_end()

    def test_nothing_is_said_where_nothing_is_missing(self):
        self.assertEqual(self.deq("train", "--resume", "run").stderr.splitlines()[0],
                         f"run: already finished, step {STEPS} of {STEPS}")
        self.remove_checkpoints(after=35)  # as a kill before the last checkpoint leaves it
        self.assertNotIn("gone", self.deq("train", "--resume", "run").stderr)
        self.assert_same_end()


class LostCheckpoints(Gaps):
    def test_all_of_them(self):
        self.remove_checkpoints(after=-1)
        message = self.refused("train", "--resume", "run", status=1)
        self.assertIn(f"metrics up to step {STEPS}, but its checkpoints are gone", message)
        name = message.split("best.safetensors as ")[1].split(" ")[0]
        checkpoints = self.run_folder / "checkpoints"
        shutil.copy(checkpoints / "best.safetensors", checkpoints / name)
        self.deq("train", "--resume", "run", "--json")
        self.assert_same_end()

    def test_all_of_them_and_the_best(self):
        self.remove_checkpoints(after=-1)
        (self.run_folder / "checkpoints/best.safetensors").unlink()
        message = self.refused("train", "--resume", "run", status=1)
        self.assertIn("checkpoints are gone: put one back, or train anew", message)

    def test_the_later_ones(self):
        self.remove_checkpoints(after=20)
        before = (self.run_folder / "metrics.jsonl").read_bytes()
        said = self.deq("train", "--resume", "run").stderr
        self.assertIn(f"metrics go up to step {STEPS}, but the newest checkpoint is of step 20", said)
        kept = self.run_folder / f"metrics-until-step-{STEPS}.jsonl"
        self.assertIn(kept.name, said)
        self.assertEqual(kept.read_bytes(), before)
        self.assert_same_end()


if __name__ == "__main__":
    unittest.main()
