"""What the tests of the program share: running it, and folders to run it in."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DEQ_SOURCE_DIR"])
CONFIG = SOURCE / "configs/paper/synthetic.toml"
SHORT = ["--set", "train.epochs=2", "--set", "data.train_samples=256", "--set", "data.valid_samples=64"]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def deq(self, *arguments, status=0):
        """Runs the program in the test's folder and checks its exit status."""
        result = subprocess.run(
            [os.environ["DEQ_BINARY"], *map(str, arguments)], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def refused(self, *arguments, status=2):
        """Runs it expecting a refusal: one sentence on standard error, nothing left behind."""
        before = self.tree()
        result = self.deq(*arguments, status=status)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("deq: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(self.tree(), before)
        return result.stderr.removeprefix("deq: ").strip()

    def tree(self):
        return {path.relative_to(self.folder): path.read_bytes() if path.is_file() else None
                for path in self.folder.rglob("*")}

    def weights(self, run):
        """Every tensor of the run's newest checkpoint, by name: shape, type and bytes."""
        newest = max((self.folder / run / "checkpoints").glob("step-*.safetensors"))
        data = newest.read_bytes()
        header_end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:header_end])
        header.pop("__metadata__")
        return {name: (entry["dtype"], entry["shape"],
                       data[header_end:][slice(*entry["data_offsets"])])
                for name, entry in header.items()}

    def train(self, out="run", *more):
        """A short training run; returns its result."""
        result = self.deq("train", CONFIG, *SHORT, *more, "--out", out, "--json")
        return json.loads(result.stdout)
