"""A trained classifier says what images show, wherever its run was taken."""

import json
import pathlib
import re
import shutil
import tempfile
import unittest

from program import read_checkpoint
from test_vision import COLOURS, SIZE, VisionTest, png


class Predict(VisionTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.trained = pathlib.Path(folder.name) / "run"

    def setUp(self):
        super().setUp()
        if not self.trained.exists():
            self.train_squares(self.trained, "--set", "train.epochs=24")
        shutil.copytree(self.trained, self.folder / "run")

    def square(self, name, colour, width=SIZE, height=SIZE):
        (self.folder / name).write_bytes(png([[COLOURS[colour]] * width] * height))
        return name

    def predict(self, *arguments, status=0):
        lines = self.deq("predict", *arguments, "--json", status=status).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_names_the_classes_without_the_data(self):
        shutil.rmtree(self.folder / "images")
        images = [self.square(f"{colour}.png", colour) for colour in COLOURS]
        for colour, result in zip(COLOURS, self.predict("run", *images)):
            self.assertEqual(result["image"], f"{colour}.png")
            best, *others = result["classes"]
            self.assertEqual(best["class"], colour)
            self.assertEqual(len(others), 2)
            self.assertAlmostEqual(sum(item["probability"] for item in result["classes"]), 1)
            self.assertGreater(result["evaluations"], 0)
            self.assertIn("status", result)
        text = self.deq("predict", "run", images[0], "--top", "1").stdout
        self.assertIn(list(COLOURS)[0], text)
        self.assertNotIn(list(COLOURS)[1] + "\n", text)
        self.assertIn("relative residual", text)

    def test_agrees_with_eval(self):
        images = sorted((self.folder / "images/test").glob("*/*.png"))
        right = sum(result["classes"][0]["class"] == path.parent.name
                    for path, result in zip(images, self.predict("run", *images, "--top", "1")))
        accuracy = json.loads(self.deq("eval", "run", "--json").stdout)["accuracy"]
        self.assertAlmostEqual(100 * right / len(images), accuracy, places=9)

    def test_images_of_other_sizes(self):
        result, = self.predict("run", self.square("large.png", "red", 40, 25))
        plain, = self.predict("run", self.square("small.png", "red"))
        self.assertEqual(result["classes"], plain["classes"])  # a uniform colour survives resizing

    def test_an_unreadable_image_does_not_hide_the_others(self):
        (self.folder / "text.png").write_text("hello")
        self.deq("predict", "run", "text.png", self.square("a.png", "blue"), "--json", status=1)
        result = self.deq("predict", "run", "text.png", "a.png", "nowhere.png", "--json", status=2)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(["error" in line for line in lines], [True, False, True])
        self.assertIn("text.png", result.stderr)
        self.assertIn("nowhere.png", result.stderr)

    def test_a_checkpoint_without_names_asks_the_data_and_then_counts(self):
        self.train_squares("short", "--set", "train.epochs=1")
        for path in (self.folder / "short/checkpoints").iterdir():
            _, metadata = read_checkpoint(path)
            self.assertEqual(json.loads(metadata["classes"]), sorted(COLOURS))
        self.deq("convert", self.checkpoints("short")[-1], "--like", "short", "--out", "old")
        image = self.square("a.png", "red")
        self.forget_names("old", image)
        names = [item["class"] for item in self.predict("old", image)[0]["classes"]]
        self.assertEqual(sorted(names), sorted(COLOURS))
        shutil.rmtree(self.folder / "images")
        names = [item["class"] for item in self.predict("old", image)[0]["classes"]]
        self.assertEqual(sorted(names), ["0", "1", "2"])

    def forget_names(self, run, image):
        """Makes the run's checkpoint one of a program that did not know the classes."""
        path, = self.checkpoints(run)
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        del header["__metadata__"]["classes"]

        def write():
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])

        write()
        damage = self.deq("predict", run, image, status=1).stderr
        header["__metadata__"]["checksum"] = re.search('its content\'s "(\\w+)"', damage)[1]
        write()

    def test_other_settings_and_checkpoints(self):
        image = self.square("a.png", "red")
        one, = self.predict("run", image, "--set", "solver.forward.max_evals=2")
        self.assertEqual(one["evaluations"], 2)
        self.assertIn("classes", self.predict("run", image, "--checkpoint", "best")[0])


class Explicit(VisionTest):
    def test_a_network_without_an_equilibrium(self):
        self.deq("train", self.explicit("resnet"), "--set", "train.steps=1", "--out", "run", "--json")
        (self.folder / "a.png").write_bytes(png([[COLOURS["red"]] * SIZE] * SIZE))
        result = json.loads(self.deq("predict", "run", "a.png", "--json").stdout)
        self.assertEqual(len(result["classes"]), 3)
        self.assertNotIn("evaluations", result)
        rows = self.deq("eval", "run", "--budgets", "1,2", "--json")
        row, = map(json.loads, rows.stdout.splitlines())
        self.assertNotIn("budget", row)
        self.assertIn("samples_per_s", row)
        self.assertIn("no equilibrium", rows.stderr)


class Misuse(VisionTest):
    def test_no_run_that_classifies_images(self):
        self.assertIn("nowhere", self.refused("predict", "nowhere", "a.png"))
        self.train("synthetic")
        self.assertIn('"synthetic"', self.refused("predict", "synthetic", "a.png"))


if __name__ == "__main__":
    unittest.main()
