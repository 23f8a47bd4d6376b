"""Segmentation as a user meets it: squares and discs on noise, drawn here."""

import json
import random
import unittest

from pictures import palette_png, png
from program import SEED, ProgramTest, settings

SIZE = 16
TRAIN, TEST = 16, 6
COLOURS = [(120, 120, 120), (210, 60, 50), (50, 70, 210)]  # of the ground, squares and discs
IGNORED = 255


def scene(draw):
    """Pixels and their classes: one square and one disc, the last line ignored."""
    classes = [[0] * SIZE for _ in range(SIZE)]
    top, left, side = draw.randint(0, 9), draw.randint(0, 2), draw.randint(4, 6)
    row, column, radius = draw.randint(3, 12), draw.randint(11, 13), draw.uniform(2.2, 3.2)
    for y in range(SIZE):
        for x in range(SIZE):
            if top <= y < top + side and left <= x < left + side:
                classes[y][x] = 1
            elif (y - row) ** 2 + (x - column) ** 2 <= radius**2:
                classes[y][x] = 2
    pixels = [[tuple(min(255, max(0, value + draw.randint(-40, 40))) for value in COLOURS[number])
               for number in line] for line in classes]
    classes[-1] = [IGNORED] * SIZE
    return pixels, classes


class SegmentationTest(ProgramTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(SEED)
        for split, count in (("train", TRAIN), ("val", TEST)):
            folder = self.folder / "scenes" / split
            for part in ("images", "masks"):
                (folder / part).mkdir(parents=True)
            for index in range(count):
                pixels, classes = scene(draw)
                (folder / f"images/{index:02}.png").write_bytes(png(pixels))
                (folder / f"masks/{index:02}.png").write_bytes(palette_png(classes))
        self.config = self.folder / "shapes.toml"
        self.config.write_text(f"""experiment = "segmentation"
[data]
path = "scenes"
crop_height = {SIZE}
crop_width = {SIZE}
min_scale = 0.8
max_scale = 1.25
valid_batch_size = 2
[model]
channels = [8, 8]
groups = 4
expansion = 2
dropout = 0.0
downsample_times = 0
norm_momentum = 0.1
classes = 3
[loss]
class_weights = [0.5, 1, 1]
[solver.forward]
name = "anderson"
max_evals = 10
[solver.adjoint]
name = "anderson"
max_evals = 10
[jacobian]
gamma = 0.1
probability = 0.3
[train]
epochs = 3
batch_size = 8
lr = 1e-2
log_every = 2
[train.optimiser]
name = "adam"
""")

    def train_shapes(self, out, *more):
        return json.loads(self.deq("train", self.config, *more, "--out", out, "--json").stdout)


class Learning(SegmentationTest):
    def test_the_shapes_are_found_and_evaluated_at_any_budget(self):
        result = self.train_shapes("run", *settings(train__epochs=30, train__lr=2e-2))
        # Who takes everything for ground gets less than 30.
        self.assertGreater(result["mean_iou"], 45, f"seed {SEED}")
        self.assertGreater(result["pixel_accuracy"], 75, f"seed {SEED}")
        for name in ("loss", "residual", "residual_p90", "nfe_forward", "rho", "jacobian_norm",
                     "path_distance"):
            self.assertIn(name, result)
        evaluated = json.loads(self.deq("eval", "run", "--json").stdout)
        self.assertEqual(evaluated["mean_iou"], result["mean_iou"])
        rows = [json.loads(line) for line in
                self.deq("eval", "run", "--budgets", "1,4,10", "--json").stdout.splitlines()]
        residuals = [row["residual"] for row in rows]
        self.assertEqual(residuals, sorted(residuals, reverse=True))
        self.assertEqual(rows[-1]["mean_iou"], evaluated["mean_iou"])
        for row in rows:
            self.assertAlmostEqual(row["samples_per_s"] * row["seconds"], TEST)

    def test_the_same_bits_after_an_interruption(self):
        steps = settings(model__dropout=0.2, train__checkpoints__every_steps=2)
        self.train_shapes("straight", *steps)
        self.train_shapes("stopped", *steps)
        # As if it had been killed after step 4.
        self.checkpoints("stopped")[-1].unlink()
        self.deq("train", "--resume", "stopped")
        self.assertEqual(self.weights("straight"), self.weights("stopped"))

    def test_workers_see_the_same_crops(self):
        self.train_shapes("inline", *settings(train__epochs=1))
        self.train_shapes("workers", *settings(train__epochs=1, train__loader__workers=2))
        self.assertEqual(self.weights("inline"), self.weights("workers"))

    def test_two_processes_validate_as_one(self):
        result = self.train_shapes("run", "--nproc", "2", *settings(train__epochs=1))
        evaluated = json.loads(self.deq("eval", "run", "--json").stdout)
        self.assertEqual(evaluated["mean_iou"], result["mean_iou"])
        self.assertEqual(evaluated["pixel_accuracy"], result["pixel_accuracy"])
        self.assertAlmostEqual(evaluated["loss"], result["loss"], places=5)

    def test_pretraining_and_the_middle_of_images_alone(self):
        result = self.train_shapes("run", *settings(
            train__epochs=1, train__pretrain__steps=1, train__pretrain__layers=2, data__augment="false",
            data__crop_height=11, data__crop_width=13, data__valid_crop="true"))
        self.assertIn("mean_iou", result)


class BadData(SegmentationTest):
    def failed(self, *more):
        """What is said of data that is found wrong when it is read: in the middle of a run."""
        return self.deq("train", self.config, *settings(train__epochs=1), *more, status=1).stderr

    def test_no_data_there(self):
        self.assertIn("no folder train/", self.refused("train", self.config, *settings(data__path=".")))

    def test_groups_that_do_not_divide_the_channels(self):
        self.assertIn("must be a multiple of groups = 3", self.refused("train", self.config, *settings(model__groups=3)))

    def test_a_missing_mask_is_named(self):
        (self.folder / "scenes/train/masks/03.png").unlink()
        message = self.refused("train", self.config)
        self.assertIn("images/03.png has no mask", message)
        self.assertIn("masks/03.png", message)

    def test_check_knows_masks(self):
        def checked(status):
            return json.loads(self.deq("data", "check", "scenes", "--json", status=status).stdout)

        whole = checked(0)
        self.assertEqual((whole["format"], whole["problems"]), ("masks", []))
        self.assertEqual([(split["split"], split["images"], split["classes"]) for split in whole["splits"]],
                         [("train", TRAIN, {}), ("val", TEST, {})])
        (self.folder / "scenes/train/masks/03.png").unlink()
        (self.folder / "scenes/train/masks/04.png").write_bytes(palette_png([[0] * SIZE] * (SIZE + 1)))
        (self.folder / "scenes/val/masks/01.png").write_bytes(png([[(0, 1, 2)] * SIZE] * SIZE))
        (self.folder / "scenes/val/images/02.png").write_bytes(b"")
        problems = checked(1)["problems"]
        for problem, (path, reason) in zip(problems, (
                ("train/images/03.png", "train/masks/03.png cannot be read"),
                ("train/images/04.png", "masks/04.png is 16 × 17, must be 16 × 16"),
                ("val/images/02.png", "the file is empty"),
                ("val/images/01.png", "masks/01.png cannot be read: it has 3 channels")), strict=True):
            self.assertEqual(problem["where"], path)
            self.assertIn(reason, problem["what"])
        text = self.deq("data", "summary", "scenes").stdout
        self.assertIn("images with masks (experiment = \"segmentation\")", text)
        self.assertIn(f"train: {TRAIN} images, each with a mask", text)
        self.refused("data", "pack", "scenes", "packed")

    def test_a_mask_of_another_size_is_named(self):
        (self.folder / "scenes/train/masks/03.png").write_bytes(palette_png([[0] * SIZE] * (SIZE + 1)))
        self.assertIn("masks/03.png is 16 × 17, must be 16 × 16", self.failed())

    def test_an_unknown_class_is_named(self):
        self.assertIn("a pixel of class 2, must be below 2, or 255",
                      self.failed(*settings(model__classes=2, loss__class_weights="[]")))

    def test_a_mask_of_colours_is_named(self):
        (self.folder / "scenes/val/masks/01.png").write_bytes(png([[(0, 1, 2)] * SIZE] * SIZE))
        self.assertIn("masks/01.png cannot be read: it has 3 channels", self.failed())

    def test_weights_for_other_classes(self):
        message = self.refused("train", self.config, *settings(loss__class_weights="[1, 2]"))
        self.assertIn("loss.class_weights has 2 entries, must have one for each of the 3 classes", message)


if __name__ == "__main__":
    unittest.main()
