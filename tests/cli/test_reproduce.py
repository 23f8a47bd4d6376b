"""`deq reproduce`: runs are trained, gone on with or reused, then collected and drawn."""

import json
import signal
import unittest

from program import HANGS, SOURCE, ProgramTest, settings, wait_until
from test_report_page import BROWSER, PageTest
from test_vision import VisionTest

RECIPES = SOURCE / "configs/reproduce"
NAMES = ["fig1", "fig3", "fig5", "fig6", "fig7", "fig8", "fig10", "table1", "table2", "table3", "table5"]
SCALES = ("small", "books", "long", "paper")
GAMMAS = (0, 1, 2, 4)
SHORT = settings(train__epochs=2, data__train_samples=256, data__valid_samples=64)


def run_folder(gamma, scale="small"):
    return f"out/{scale}/runs/synthetic-gamma-{gamma}"


class ReproduceTest(ProgramTest):
    def command(self, *more, name="fig5", short=SHORT):
        return ["reproduce", name, *short, "--recipes", RECIPES, "--out", "out", *more]

    def reproduce(self, *more, **kind):
        result = self.deq(*self.command(*more, **kind), "--json")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def times(self, pattern):
        return {path: path.stat().st_mtime_ns for path in sorted(self.folder.glob(pattern))}


class Synthetic(ReproduceTest):
    def test_trains_collects_draws_and_reuses(self):
        rows = self.reproduce()
        self.assertEqual([row["label"] for row in rows], [f"γ = {gamma}" for gamma in GAMMAS])
        for gamma, row in zip(GAMMAS, rows):
            last = self.metrics(run_folder(gamma))[-1]
            self.assertEqual(row["slope"], last["slope"])
            self.assertEqual(row["mse"], last["mse"])
            config = (self.folder / run_folder(gamma) / "config.toml").read_text()
            self.assertIn(f"gamma = {gamma}.0\n", config)
        results = self.folder / "out/small/fig5"
        self.assertEqual([json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()], rows)
        tables = (results / "tables.md").read_text()
        self.assertIn("| γ = 4 |", tables)
        self.assertIn("| \\|∂f/∂z\\| at z* |", tables)
        page = (results / "report.html").read_text()
        self.assertIn('"about":"The paper reports: every γ learns the same equilibria', page)
        before = self.times("out/small/runs/**/*")
        self.assertTrue(before)
        again = self.deq(*self.command())  # for people: the table
        self.assertIn("|∂f/∂z| at z*", again.stdout)
        self.assertIn("report: out/small/fig5/report.html", again.stdout)
        self.assertEqual(again.stderr, "4 of 4 runs were there already\n")
        self.assertEqual(self.times("out/small/runs/**/*"), before)

    def test_another_configuration_in_the_folder_is_refused(self):
        self.reproduce()
        said = self.refused(*self.command("--set", "seed=7"))
        self.assertIn(f"{run_folder(0)} holds a run with seed = 0, where 7 is wanted", said)

    def test_goes_on_with_what_was_interrupted(self):
        short = settings(train__steps=400, train__batch_size=16, train__checkpoints__every_steps=1,
                         data__train_samples=256, data__valid_samples=64)
        process = self.start(*self.command(short=short))
        wait_until(lambda: len(self.checkpoints(run_folder(1))) > 1, "the second run's checkpoints")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=HANGS)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertIn("run 1 of 4: synthetic-gamma-0\n", stderr)
        self.assertIn("run 2 of 4: synthetic-gamma-1\n", stderr)
        self.assertNotIn("there already", stderr)
        self.assertTrue(stderr.endswith(
            "synthetic-gamma-1: interrupted and saved; run the same command again to go on\n"), stderr)
        state = {row["run"]: row["state"] for row in self.reproduce("--dry-run", short=short)}
        self.assertEqual(list(state.values()), ["done", "to go on with", "to train", "to train"])
        first = self.times(f"{run_folder(0)}/**/*")
        rest = self.deq(*self.command(short=short)).stderr
        self.assertTrue(rest.startswith("1 of 4 runs were there already\nrun 2 of 4: synthetic-gamma-1\n"), rest)
        self.assertEqual(len(self.reproduce(short=short)), 4)
        self.assertEqual(self.times(f"{run_folder(0)}/**/*"), first)
        self.deq("reproduce", "fig5", *short, "--recipes", RECIPES, "--out", "whole", "--json")
        self.assertEqual(self.weights(run_folder(1)), self.weights("whole/small/runs/synthetic-gamma-1"))

    def test_a_run_that_diverges_is_a_result(self):
        # Steps so large that no number stays finite; the run gives up, the recipe does not.
        rows = self.reproduce("--set", "train.lr=1e30")
        self.assertEqual(len(rows), 4)
        for row in rows:
            self.assertIn("training stopped", row["failure"])
        before = self.times("out/small/runs/**/*")
        self.assertIn("γ = 0 (diverged)", self.deq(*self.command("--set", "train.lr=1e30")).stdout)
        self.assertEqual(self.times("out/small/runs/**/*"), before)

    def test_a_dry_run_leaves_nothing(self):
        states = self.reproduce("--dry-run")
        self.assertEqual([row["state"] for row in states], ["to train"] * 4)
        self.assertEqual(self.tree(), {})

    def test_every_scale_has_it(self):
        for scale in ("books", "long", "paper"):
            self.assertEqual(len(self.reproduce("--scale", scale)), 4)
            self.assertTrue((self.folder / f"out/{scale}/fig5/report.html").exists())


class WhatThereIs(ReproduceTest):
    def test_the_list_has_costs_and_data(self):
        text = self.deq("reproduce", "--list", "--recipes", RECIPES).stdout
        for name in NAMES:
            self.assertIn(f"\n{name} " if name != "fig1" else "fig1 ", text)
        self.assertIn("estimated", text)
        rows = [json.loads(line) for line in
                self.deq("reproduce", "--list", "--json", "--recipes", RECIPES).stdout.splitlines()]
        self.assertEqual({(row["name"], row["scale"]) for row in rows},
                         {(name, scale) for name in NAMES for scale in SCALES})
        for row in rows:
            self.assertGreater(row["minutes"], 0)
            self.assertGreater(row["memory_gib"], 0)
        data = {row["name"]: row["data"] for row in rows if row["scale"] == "small"}
        self.assertEqual((data["fig1"], data["fig5"], data["table3"], data["table5"]),
                         ("cifar10 text", "none", "cifar10", "text"))

    def test_the_list_of_a_name_or_scale(self):
        def listed(*which):
            lines = self.deq("reproduce", "--list", "--json", "--recipes", RECIPES, *which).stdout.splitlines()
            return [(row["name"], row["scale"]) for row in map(json.loads, lines)]

        self.assertEqual(listed("fig7"), [("fig7", scale) for scale in SCALES])
        self.assertEqual(listed("--scale", "books"), [(name, "books") for name in NAMES])
        self.assertEqual(listed("fig7", "--scale", "small"), [("fig7", "small")])
        text = self.deq("reproduce", "table2", "--list", "--scale", "paper", "--recipes", RECIPES).stdout
        self.assertIn("imagenet", text)
        self.assertNotIn("two CPU cores", text)
        self.assertIn("there are: fig1,", self.refused("reproduce", "fig2", "--list", "--recipes", RECIPES))

    def test_the_list_says_which_rows_are_missing(self):
        def listed(*which):
            return self.deq("reproduce", "--list", "--recipes", RECIPES, *which).stdout

        for name in ("table1", "table5"):
            self.assertRegex(listed(name), r"\n  not here: Megatron-LM, 8\.3 billion parameters – .*smaller .*--plan.*\n")
            for line in listed(name, "--json").splitlines():
                self.assertTrue(json.loads(line)["not_here"].startswith("Megatron-LM, 8.3 billion parameters – "))
        self.assertNotIn("not here", listed("table2"))
        self.assertEqual(json.loads(listed("fig5", "--scale", "small", "--json"))["not_here"], "")

    def test_help_explains_the_scales(self):
        text = self.deq("reproduce", "--help").stdout
        for scale, configs in (("small", "configs/small"), ("books", "configs/gpu"), ("long", "configs/cifar10"),
                               ("paper", "configs/paper")):
            self.assertRegex(text, rf"{scale}: [^;]*{configs}")

    def test_what_cannot_be_done(self):
        def said(*arguments):
            return self.refused("reproduce", *arguments, "--recipes", RECIPES)

        self.assertIn("there are: fig1, fig3, fig5,", said("fig2"))
        self.assertIn("--list", said())
        self.assertEqual(said("table3", "--cifar10", "nowhere"),
                         "table3 needs data that is not there: nowhere does not exist (name the folder with --cifar10 DIR)")
        self.assertEqual(said("fig1", "--cifar10", "nowhere"),
                         "fig1 needs data that is not there: nowhere does not exist (name the folder with --cifar10 DIR), "
                         "and data/books does not exist (name the folder with --text DIR)")
        (self.folder / "empty").mkdir()
        (self.folder / "file").write_text("")
        neither = said("table3", "--cifar10", "empty")
        for part in ("empty holds neither", "batches.meta", "train/<class>/*.jpg"):
            self.assertIn(part, neither)
        (self.folder / "python").mkdir()
        (self.folder / "python/batches.meta").write_text("")
        self.assertIn("python holds the Python version of CIFAR-10", said("table3", "--cifar10", "python"))
        self.assertIn("file is no folder", said("fig3", "--text", "file"))
        self.assertIn("empty is no corpus: there is neither train.txt nor wiki.train.tokens (name the folder with --text DIR)",
                      said("fig3", "--text", "empty", "--dry-run"))
        strange = 'b\\nooks"'
        (self.folder / strange).mkdir()
        self.assertIn(f"{strange} is no corpus", said("fig3", "--text", strange))
        (self.folder / strange / "train.txt").write_text("a word\n")
        self.assertIn(f"{strange} is no corpus: there is neither valid.txt", said("fig3", "--text", strange))
        (self.folder / strange / "valid.txt").write_text("a word\n")
        self.deq("reproduce", "fig3", "--text", strange, "--recipes", RECIPES, "--dry-run")
        self.assertIn("unknown key \"nonsense\"", said("fig5", "--set", "nonsense=1"))
        self.assertIn("nowhere", self.refused("reproduce", "fig5", "--recipes", "nowhere"))
        scale = self.deq("reproduce", "fig5", "--scale", "huge", status=2)
        self.assertIn("--scale", scale.stderr)
        self.assertIn("small", scale.stderr)
        (self.folder / "out/small/runs/synthetic-gamma-0").mkdir(parents=True)
        (self.folder / "out/small/runs/synthetic-gamma-0/notes").write_text("mine")
        self.assertIn("already holds files", self.refused(*self.command()))


RUNS = """machine = "this one"
costs = "guessed"

[runs.deq]
config = "../squares.toml"
data = "cifar10"
minutes = 1
memory_gib = 1
set = { "train.epochs" = 2 }

[runs.net]
config = "../net.toml"
data = "cifar10"
minutes = 1
memory_gib = 1
set = { "train.epochs" = 1 }
"""
FIGURE = """title = "Squares"
about = "A multiscale DEQ and a ResNet on coloured squares."
budgets = [1, 3]

[runs.net]
label = "Net"

[runs.deq]
label = "DEQ"

[runs.stopped]
run = "deq"
label = "DEQ, stopped"
stopped = 2

[runs.later]
run = "deq"
label = "Longer"
from = "paper"

[plots.sweep]
title = "Accuracy against evaluations"
x = "budget"
y = "accuracy"

[plots.speed]
title = "Images per second"
y = "eval.samples_per_s"
kind = "bars"

[plots.points]
title = "Points"
x = "jacobian_norm"
y = "residual"
split = "valid"
kind = "points"
log = true

[plots.curve]
title = "Loss"
y = "loss"
log = true

[tables.all]
title = "All"
baseline = "net"

[tables.all.columns]
parameters = "size"
accuracy = "accuracy"
nfe_forward = "evaluations"
"accuracy@3" = "at 3"
"relative.train.seconds" = "time"

[not_here]
"Huge" = "nobody has such a machine"
"""


class Vision(PageTest, VisionTest):
    def setUp(self):
        super().setUp()
        recipes = self.folder / "recipes"
        recipes.mkdir()
        (recipes / "runs-small.toml").write_text(RUNS)
        (recipes / "fig99.toml").write_text(FIGURE)
        self.config.write_text(self.config.read_text().replace("[model]\n", '[model]\nname = "mdeq"\n'))
        (self.folder / "net.toml").write_text(
            'base = "squares.toml"\n[model]\nname = "resnet"\ndepth = "18"\nstem = "cifar"\nclasses = 3\n')

    def reproduce(self, *more):
        result = self.deq("reproduce", "fig99", "--recipes", "recipes", "--out", "out", "--cifar10", "images", *more,
                          "--json")
        return {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}

    def test_sweeps_are_measured_once(self):
        rows = self.reproduce()
        self.assertEqual(list(rows), ["net", "deq", "stopped"])
        evaluated = json.loads(self.deq("eval", "out/small/runs/deq", "--budgets", "2", "--json").stdout)
        self.assertEqual(rows["stopped"]["accuracy"], evaluated["accuracy"])
        self.assertEqual(rows["stopped"]["nfe_forward"], 2)
        self.assertNotIn("nfe_forward", rows["net"])
        self.assertGreater(rows["net"]["eval.samples_per_s"], 0)
        self.assertGreater(rows["net"]["parameters"], rows["deq"]["parameters"])
        self.assertEqual(rows["net"]["relative.train.seconds"], 1)
        summary = json.loads((self.folder / "out/small/runs/deq/reproduce.json").read_text())
        self.assertEqual([row["budget"] for row in summary["evaluations"]], [1, 2, 3, 12])
        missing = ["Huge – nobody has such a machine", "Longer – from scale paper on"]
        for dry in ([], ["--dry-run"]):
            again = self.deq("reproduce", "fig99", "--recipes", "recipes", "--out", "out", "--cifar10", "images", *dry).stdout
            self.assertIn("".join(f"not here: {line}\n" for line in missing), again)
        note = f"Not here: {'; '.join(missing)}."
        for file in ("tables.md", "report.html"):
            self.assertIn(note, (self.folder / "out/small/fig99" / file).read_text(), file)
        (self.folder / "images").rename(self.folder / "moved")  # nothing is left to measure: no data is needed
        self.assertEqual(self.reproduce(), rows)

    @unittest.skipUnless(BROWSER, "no Chromium on this machine")
    def test_the_page(self):
        self.reproduce()
        (self.folder / "out/small/fig99/report.html").rename(self.folder / "page.html")
        dom = self.drawn("page.html")
        self.assertEqual(self.sections(dom)[0], "reproduction")
        for title in ("Accuracy against evaluations", "Images per second", "Points", "Loss"):
            self.assertIn(f"<strong>{title}</strong>", dom)
        self.assertIn('<th scope="row">DEQ, stopped</th>', dom)
        self.assert_fits_a_phone("page.html")


if __name__ == "__main__":
    unittest.main()
