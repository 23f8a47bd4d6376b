"""Trainings that end without an error and are worth nothing: the program says so."""

import json
import os
import re
import unittest

from program import CONFIG, SHORT, ProgramTest, settings


class WarningTest(ProgramTest):
    def trained(self, *more):
        """The result of a short training with its warnings, which stand on standard error as well."""
        result = self.deq("train", CONFIG, *SHORT, *more, "--out", "run", "--json")
        warnings = json.loads(result.stdout)["warnings"]
        said = result.stderr.splitlines()
        self.assertEqual([line.removeprefix("run: warning: ") for line in said if "run: warning: " in line], warnings)
        return said, warnings

    def report_warnings(self):
        page = (self.folder / "run/report.html").read_text()
        return json.loads(re.search(r'id="deq-data">(.*?)</script>', page, re.DOTALL)[1])["runs"][0]["warnings"]


class Endings(WarningTest):
    def test_a_model_that_means_nothing(self):
        # With z* as its value a layer's loss stays finite whatever its weights are.
        for rate, one_more_step in (("1e10", "false"), ("30", "true")):
            with self.subTest(rate=rate):
                _, warnings = self.trained("--set", f"train.lr={rate}", "--set", f"solver.one_more_step={one_more_step}")
                self.assertIn("This model means nothing any more", warnings[0])
                self.assertIn("train.lr", warnings[0])
                self.assertEqual(self.report_warnings(), warnings)
                self.assertIn("This model means nothing any more", self.deq("eval", "run").stderr)
            for path in sorted((self.folder / "run").rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    def test_a_rate_that_nothing_survives(self):
        result = self.deq("train", CONFIG, *SHORT, "--set", "train.lr=1e10", "--out", "run", status=1)
        self.assertIn("training stopped: the loss or its gradient was not finite", result.stderr)

    def test_a_healthy_run_has_none(self):
        said, warnings = self.trained()
        self.assertEqual((said, warnings), ([], []))
        self.assertEqual(self.deq("eval", "run").stderr, "")

    def test_eval_warns_of_what_it_measures(self):
        self.trained()
        said = self.deq("eval", "run", "--set", "solver.forward.max_evals=2").stderr
        self.assertIn("residual is above 1%", said)


class Pretraining(WarningTest):
    def test_a_run_that_never_leaves_it(self):
        said, warnings = self.trained(*settings(train__pretrain__steps=40))
        self.assertIn("all 8 steps are pretraining (train.pretrain.steps = 40)", said[0])
        self.assertIn("ended at step 8, within its pretraining of 40 steps", warnings[0])
        self.assertEqual(self.report_warnings(), warnings)

    def test_a_run_that_does(self):
        said, warnings = self.trained(*settings(train__pretrain__steps=4))
        self.assertNotIn("pretraining", " ".join(said + warnings))


class Counts(WarningTest):
    def test_more_epochs_than_can_be_counted(self):
        for key in ("train.epochs", "train.eval_every", "jacobian.stop_epoch", "train.random_evals"):
            message = self.refused("train", CONFIG, "--set", f"{key}=9223372036854775807", "--out", "run")
            self.assertIn(key, message)
            self.assertIn("1e+09", message)

    def test_more_processes_than_cores(self):
        processes = len(os.sched_getaffinity(0)) + 1
        if processes > 5:
            self.skipTest("this machine has so many cores that more processes would take long")
        small = settings(train__batch_size=4 * processes, data__train_samples=8 * processes)
        result = self.deq("train", CONFIG, *SHORT, *small, "--out", "run", "--nproc", processes)
        self.assertIn(f"deq: warning: {processes} processes share {processes - 1} core", result.stderr)


if __name__ == "__main__":
    unittest.main()
