"""Image classification as a user meets it: a small set of coloured squares, drawn here."""

import json
import random
import unittest

from pictures import png
from program import SEED, ProgramTest, settings

SIZE = 8
COLOURS = {"blue": (40, 60, 200), "green": (50, 190, 60), "red": (210, 50, 40)}
LEARNED_STARTS = settings(model__predicted_start="true", train__start_penalty=0.1,
                          train__step_penalty=0.1, train__step_evals=3)
TRAIN, TEST = 24, 50  # images of each class; enough to test on for two batches


class VisionTest(ProgramTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(SEED)
        for split, count in (("train", TRAIN), ("test", TEST)):
            for name, colour in COLOURS.items():
                folder = self.folder / "images" / split / name
                folder.mkdir(parents=True)
                for index in range(count):
                    pixels = [[tuple(min(255, max(0, value + draw.randint(-30, 30))) for value in colour)
                               for _ in range(SIZE)] for _ in range(SIZE)]
                    (folder / f"{index:03}.png").write_bytes(png(pixels))
        self.config = self.folder / "squares.toml"
        self.config.write_text(f"""experiment = "vision"
[data]
format = "folder"
path = "images"
image_size = {SIZE}
[model]
channels = [8, 8]
groups = 4
expansion = 2
dropout = 0.0
head_channels = [4, 4]
final_channels = 16
classes = 3
[solver.forward]
name = "anderson"
max_evals = 12
[solver.adjoint]
name = "anderson"
max_evals = 12
[jacobian]
probability = 0.3
[train]
epochs = 4
batch_size = 12
lr = 1e-2
log_every = 2
""")

    def train_squares(self, out, *more):
        return json.loads(self.deq("train", self.config, *more, "--out", out, "--json").stdout)

    def explicit(self, name):
        """The file with another model in place of the multiscale DEQ."""
        lines = self.config.read_text().splitlines()
        begin, end = lines.index("[model]"), lines.index("[solver.forward]")
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join([*lines[:begin], "[model]", f'name = "{name}"', "classes = 3",
                                   *lines[end:]]))
        return path


class Learning(VisionTest):
    def test_a_multiscale_deq_learns_the_colours_and_is_evaluated_at_any_budget(self):
        result = self.train_squares("run", "--set", "train.epochs=12")
        self.assertGreater(result["accuracy"], 80, f"seed {SEED}")
        for name in ("top5", "loss", "residual", "residual_p90", "nfe_forward", "rho", "jacobian_norm",
                     "path_distance"):
            self.assertIn(name, result)
        evaluated = json.loads(self.deq("eval", "run", "--json").stdout)
        self.assertEqual(evaluated["accuracy"], result["accuracy"])
        rows = [json.loads(line) for line in
                self.deq("eval", "run", "--budgets", "2,4,12", "--json").stdout.splitlines()]
        residuals = [row["residual"] for row in rows]
        self.assertEqual(residuals, sorted(residuals, reverse=True))
        for row in rows:
            for name in ("accuracy", "top5", "loss", "rho", "seconds", "samples_per_s", "peak_memory_mib"):
                self.assertIn(name, row)
            self.assertAlmostEqual(row["samples_per_s"] * row["seconds"], TEST * len(COLOURS))
        # ρ is that of the state in which the budget ends: the training's own at the training's.
        self.assertEqual(rows[-1]["rho"], evaluated["rho"])
        self.assertNotEqual(rows[0]["rho"], rows[-1]["rho"])
        table = self.deq("eval", "run", "--budgets", "12,1").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in table], ["budget", "12", "1"])
        self.assertEqual(len({len(line) for line in table}), 1, table)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertTrue(any("penalty" in line for line in lines))
        trace = lines[-1]["residual_trace"]
        self.assertIn(len(trace), range(2, 13))
        self.assertLess(trace[-1], trace[0])
        self.assertEqual(evaluated["residual_trace"], trace)

    def test_explicit_networks_train_on_the_same_data(self):
        for name in ("resnet", "densenet", "inception"):
            path = self.explicit(name)
            result = json.loads(self.deq("train", path, "--set", "train.epochs=1", "--out", name,
                                         "--json").stdout)
            self.assertIn("accuracy", result)
            self.assertNotIn("nfe_forward", result)

    def test_inception_with_the_stem_of_large_images(self):
        result = json.loads(self.deq("train", self.explicit("inception"), *settings(
            model__stem="imagenet", train__steps=2, train__log_every=1), "--out", "run", "--json").stdout)
        losses = [line["loss"] for line in self.metrics("run") if line["split"] == "train"]
        self.assertEqual(len(losses), 2)
        for loss in (*losses, result["loss"]):
            self.assertTrue(0 < loss < 100, loss)  # ln 3 = 1.1 is that of a guess
        weights = self.weights("run")
        shape = {name: weights[name][1] for name in weights if name.startswith("features.filters1")}
        self.assertEqual(shape, {"features.filters1.weight": [24, 1, 7, 7]})

    def test_an_adaptive_gamma_and_pretraining(self):
        self.train_squares("run", "--set", "train.epochs=2", "--set", "train.pretrain.steps=3", "--set",
                           "train.pretrain.layers=2", "--set", "jacobian.control.hold=rho", "--set",
                           "jacobian.control.target=0.5", "--set", "jacobian.control.every=4")
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertTrue(any("held" in line for line in lines))

    def test_the_same_bits_after_an_interruption(self):
        settings = ("--set", "train.epochs=2", "--set", "model.dropout=0.2", "--set",
                    "train.checkpoints.every_steps=2", *LEARNED_STARTS)
        self.train_squares("straight", *settings)
        self.train_squares("stopped", *settings)
        # As if it had been killed after step 8.
        newest = max((self.folder / "stopped/checkpoints").glob("step-*"))
        newest.unlink()
        self.deq("train", "--resume", "stopped")
        self.assertEqual(self.weights("straight"), self.weights("stopped"))

    def test_learned_starts(self):
        for name, more in (("usual", ()), ("learned", LEARNED_STARTS)):
            self.train_squares(name, "--set", "train.epochs=10", *more)
        lines = [json.loads(line) for line in (self.folder / "learned/metrics.jsonl").read_text().splitlines()]
        starts = [line["start_distance"] for line in lines if "start_distance" in line]
        self.assertAlmostEqual(starts[0], 1, delta=0.1)
        self.assertLess(starts[-1], 0.6, f"seed {SEED}")
        self.assertTrue(all(line["step_distance"] > 0 for line in lines if line["split"] == "train"))
        first = {name: json.loads(self.deq("eval", name, "--budgets", "1", "--json").stdout)["residual"]
                 for name in ("usual", "learned")}
        self.assertLess(first["learned"], first["usual"], f"seed {SEED}")
        message = self.refused("train", self.config, "--set", "train.start_penalty=1", "--out", "none")
        self.assertTrue(message.startswith("train.start_penalty = 1: this network has no start"), message)

    def test_images_read_from_the_disk_by_workers(self):
        settings = ("--set", "data.transform=imagenet", "--set", "train.epochs=1")
        self.train_squares("inline", *settings)
        self.train_squares("workers", *settings, "--set", "train.loader.workers=2")
        self.assertEqual(self.weights("inline"), self.weights("workers"))

    def test_two_processes_follow_one(self):
        # BatchNorm sees each process's own samples, so the trainings differ. What must agree is the
        # validation, of which each does its share with the means of both's statistics.
        result = json.loads(self.deq("train", self.config, "--set", "train.epochs=1", "--nproc", "2",
                                     "--out", "run", "--json").stdout)
        evaluated = json.loads(self.deq("eval", "run", "--json").stdout)
        self.assertEqual(evaluated["accuracy"], result["accuracy"])
        self.assertAlmostEqual(evaluated["loss"], result["loss"], places=5)

    def test_statistics_of_two_processes_do_not_depend_on_when_it_is_saved(self):
        for every in (2, 7):
            self.train_squares(f"every-{every}", "--nproc", "2", "--set", "train.steps=14", "--set",
                               "train.eval_every_steps=3", "--set", "train.log_every=1", "--set",
                               f"train.checkpoints.every_steps={every}")
        weights = self.weights("every-2")
        self.assertTrue([name for name in weights if name.endswith("running_var")], list(weights))
        self.assertEqual(weights, self.weights("every-7"))
        self.assertEqual(self.metrics("every-2"), self.metrics("every-7"))


class BadData(VisionTest):
    def test_no_data_there(self):
        for path, part in (("nowhere", "data.path: nowhere does not exist"), ('a "b"', 'data.path: a "b" does not exist'), (".", "train/")):
            self.assertIn(part, self.refused("train", self.config, "--set", f"data.path={path}"))
        self.assertIn("CIFAR-10", self.refused("train", self.config, "--set", "data.format=cifar10"))
        python = self.folder / "cifar-10-batches-py/batches.meta"
        python.parent.mkdir()
        python.write_bytes(b"\x80\x02}.")
        message = self.refused("train", self.config, "--set", "data.format=cifar10", "--set", "data.path=cifar-10-batches-py",
                               "--out", "run")
        self.assertIn("cifar-10-batches-py holds the Python version of CIFAR-10, but only the binary version", message)

    def test_a_hole_larger_than_the_images(self):
        message = self.refused("train", self.config, "--set", "data.erased=9")
        self.assertEqual(message, "data.erased = 9, must be at most data.image_size = 8")
        self.train_squares("run", "--set", "data.erased=4", "--set", "train.epochs=1")

    def test_another_number_of_classes(self):
        message = self.refused("train", self.config, "--set", "model.classes=4")
        self.assertIn("3 classes", message)
        self.assertIn("model.classes = 4", message)

    def test_groups_that_do_not_divide_the_channels(self):
        self.assertIn("must be a multiple of groups = 3", self.refused("train", self.config, "--set", "model.groups=3"))

    def test_a_damaged_image_is_named(self):
        victim = self.folder / "images/train/red/003.png"
        victim.write_bytes(victim.read_bytes()[:-20])
        self.assertIn("003.png", self.refused("train", self.config, status=1))

    def test_a_damaged_image_is_skipped_and_counted_where_that_is_wanted(self):
        victim = self.folder / "images/train/red/003.png"
        victim.write_bytes(b"nothing")
        settings = ("--set", "data.transform=imagenet", "--set", "train.epochs=1", "--set",
                    "train.log_every=6")
        self.train_squares("run", *settings, "--set", "train.loader.unreadable=skip")
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sum(line.get("unreadable_samples", 0) for line in lines), 1)
        result = self.deq("train", self.config, *settings, "--out", "other", status=1)
        self.assertIn("003.png", result.stderr)

    def test_a_damaged_image_is_skipped_where_all_are_kept_in_memory(self):
        (self.folder / "images/train/red/003.png").write_bytes(b"nothing")
        (self.folder / "images/test/green/000.png").write_bytes(b"")
        (self.folder / "images/test/green/001.png").write_bytes(b"")
        skipping = ("--set", "data.transform=cifar10", "--set", "train.epochs=1", "--set", "train.loader.unreadable=skip")
        result = self.deq("train", self.config, *skipping, "--out", "run")
        evaluated = self.deq("eval", "run")
        for stderr in (result.stderr, evaluated.stderr):
            self.assertIn("training images cannot be read and is left out; the first is red/003.png: it is neither JPEG",
                          stderr)
            self.assertRegex(stderr, r"2 of \d+ validation images cannot be read and are left out; the first is green/000.png")


if __name__ == "__main__":
    unittest.main()
