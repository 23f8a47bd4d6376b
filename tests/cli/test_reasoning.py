"""Puzzles: made, learnt, solved, from the first command to the last."""

import json
import re
import shutil
import unittest

from program import ProgramTest

CONFIG = """
experiment = "reasoning"

[data]
path = "sudoku"

[model]
width = 16
inner_multiple = 16
inner_steps = 2
damping = 0.95
noise = 0.01
start = "random"

[solver.forward]
max_evals = 12

[reasoning]
segments = 4

[train]
steps = 40
batch_size = 16
lr = 3e-3
eval_every_steps = 20
weight_average = 0.9

[train.lr_schedule]
warmup_steps = 10
"""


class Reasoning(ProgramTest):
    def setUp(self):
        super().setUp()
        self.deq("data", "make", "sudoku", "sudoku", "--boxes", "2x2", "--train", "100", "--test", "20")
        (self.folder / "config.toml").write_text(CONFIG)

    def train(self, run, *settings, status=0):
        options = [word for setting in settings for word in ("--set", setting)]
        return self.deq("train", "config.toml", "--out", run, *options, status=status)

    def metrics(self, run, split="valid"):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if row["split"] == split]

    def question(self):
        return (self.folder / "sudoku/test.csv").read_text().splitlines()[1].split(",")[1:3]

    def test_learns_and_is_evaluated_deeper_and_broader(self):
        self.train("run")
        rows = self.metrics("run")
        self.assertEqual([row["step"] for row in rows], [20, 40])
        self.assertLess(rows[1]["loss"], rows[0]["loss"])
        for name in ("exact", "rho", "residual", "nfe_forward"):
            self.assertIn(name, rows[1])
        more = json.loads(self.deq("eval", "run", "--json", "--set", "reasoning.breadth=3",
                                   "--set", "solver.forward.max_evals=24").stdout)
        self.assertIn("exact_first", more)
        self.assertLess(more["residual"], rows[1]["residual"])
        self.assertTrue((self.folder / "run/report.html").stat().st_size > 10000)

    def test_a_resumed_run_ends_with_the_same_bits(self):
        self.train("whole")
        self.train("parts", "train.checkpoints.every_steps=13", "train.checkpoints.keep=9")
        for file in list((self.folder / "parts/checkpoints").glob("*.safetensors")):
            if not re.fullmatch(r"step-0+(13)?\.safetensors", file.name):  # all that came after step 13
                file.unlink()
        self.deq("train", "--resume", "parts")
        whole, again = (self.metrics(run)[-1] for run in ("whole", "parts"))
        for name in ("loss", "exact", "cells", "residual"):
            self.assertEqual(whole[name], again[name])

    def test_solves_a_puzzle_without_the_data(self):
        self.train("run", "train.steps=5")
        question, answer = self.question()
        shutil.rmtree(self.folder / "sudoku")
        (self.folder / "line.txt").write_text(question + "\n")
        rows = [question[i:i + 4] for i in range(0, 16, 4)]
        drawn = [f"{row[:2]}|{row[2:]}" for row in rows]
        (self.folder / "drawn.txt").write_text("\n".join(drawn[:2] + ["--+--"] + drawn[2:]))
        text = self.deq("predict", "run", "line.txt").stdout
        self.assertEqual(text.splitlines()[3], "---+---")
        self.assertRegex(text, "it (keeps|breaks) the rules; .* after [0-9]+ evaluations")
        lines = self.deq("predict", "run", "line.txt", "drawn.txt", "--json").stdout.splitlines()
        first, second = map(json.loads, lines)
        self.assertEqual(first["answer"], second["answer"])
        self.assertEqual(len(first["answer"]), 16)
        self.assertEqual(len(first["way"]), first["evaluations"])
        self.assertEqual(first["right"], first["answer"] == answer)

    def test_walks_through_a_maze(self):
        self.deq("data", "make", "maze", "mazes", "--size", "5x6", "--path", "5:12", "--train", "100", "--test", "20")
        self.train("run", "data.path=mazes", "model.attention=true", "model.heads=2", "train.steps=20")
        last = self.metrics("run")[-1]
        self.assertGreater(last["cells"], 30)
        question, answer = (self.folder / "mazes/test.csv").read_text().splitlines()[1].split(",")[1:3]
        self.assertEqual((last["puzzle_question"], last["puzzle_answer"]), (question, answer))
        shutil.rmtree(self.folder / "mazes")
        for name, text in (("line.txt", question), ("rows.txt", question.replace("/", "\n").replace(" ", ".") + "\n")):
            (self.folder / name).write_text(text)
        text = self.deq("predict", "run", "rows.txt").stdout
        self.assertEqual([len(row) for row in text.splitlines()[1:6]], 5 * [6])
        self.assertRegex(text, "it (keeps|breaks) the rules; .* after [0-9]+ evaluations")
        first, second = map(json.loads, self.deq("predict", "run", "line.txt", "rows.txt", "--json").stdout.splitlines())
        self.assertEqual(first["answer"], second["answer"])
        self.assertEqual(first["right"], first["answer"] == answer)
        self.assertEqual({len(line) for line in first["way"]}, {len(question)})
        for text, complaint in (("S G", "3 cells where 30 are expected"), (". " * 15, "a maze has one start, not 0"),
                                (5 * "S....G\n", "a maze has one start, not 5"), ("1" + 29 * ".", "it has other signs, too"),
                                ("S...G\n" * 5, "row 1 of the maze has 5 cells, where 6 are expected"),
                                ("S....G\n" * 6, "a maze of 6 rows, where 5 are expected")):
            (self.folder / "bad.txt").write_text(text)
            result = self.deq("predict", "run", "bad.txt", status=1)
            self.assertIn(complaint, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_a_model_of_mazes_is_none_of_sudokus(self):
        # Both have sixteen cells and five things to stand in them.
        self.deq("data", "make", "maze", "mazes", "--size", "4x4", "--path", "3:8", "--train", "50", "--test", "10")
        self.train("run", "data.path=mazes", "train.steps=1", "train.lr_schedule.warmup_steps=0")
        result = self.deq("eval", "run", "--set", "data.path=sudoku", status=1)
        self.assertIn('its samples are "maze 4x4", those of the data "sudoku 2x2"', result.stderr)
        self.deq("data", "make", "maze", "both", "--size", "4x4", "--path", "3:8", "--train", "5", "--test", "5")
        shutil.copy(self.folder / "sudoku/test.csv", self.folder / "both/test.csv")
        result = self.train("bad", "data.path=both", status=2)
        self.assertIn("the puzzles of train.csv and test.csv in both are of different shapes", result.stderr)

    def test_bad_input_gets_one_sentence(self):
        self.train("run", "train.steps=1", "train.lr_schedule.warmup_steps=0")
        for name, text, complaint in (
                ("short.txt", "12.", "a puzzle of 3 cells, where 16, 36, 64 or 81 are expected"),
                ("word.txt", "hello", "it has other signs, too"),
                ("large.txt", "9" + "." * 15, "a puzzle of 4 × 4 cells has the digit 9"),
                ("other.txt", "." * 81, "a puzzle of 81 cells, but the model solves those of 4 × 4")):
            (self.folder / name).write_text(text)
            result = self.deq("predict", "run", name, status=1)
            self.assertIn(complaint, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.deq("predict", "run", "nowhere.txt", status=2)
        (self.folder / "empty").mkdir()
        result = self.train("bad", "data.path=empty", status=2)
        self.assertIn("there is no empty/train.csv; deq data make sudoku makes one", result.stderr)
        result = self.train("bad", "model.attention=true", "model.heads=5", status=2)
        self.assertIn("width = 16, must be a multiple of 2·heads = 10", result.stderr)
        result = self.train("bad", "reasoning.breadth=2", 'model.start="fixed"', status=2)
        self.assertIn('reasoning.breadth = 2 needs model.start = "random"', result.stderr)
        self.assertFalse((self.folder / "bad").exists() and any((self.folder / "bad").glob("*.jsonl")))


if __name__ == "__main__":
    unittest.main()
