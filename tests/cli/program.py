"""What the tests of the program share: running it, and folders to run it in."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["DEQ_SOURCE_DIR"])
CONFIG = SOURCE / "configs/paper/synthetic.toml"
SHORT = ["--set", "train.epochs=2", "--set", "data.train_samples=256", "--set", "data.valid_samples=64"]

# What two runs of the same training may differ in.
TIMINGS = ("seconds", "train_seconds", "samples_per_s", "peak_memory_mib")

# Of the randomised tests: the same number as in tests/support/seed.cpp.
SEED = int(os.environ.get("DEQ_TEST_SEED") or 20210713)
print(f"DEQ_TEST_SEED={SEED}", flush=True)


def settings(**values):
    """Options for the command line: settings(train__steps=3) is --set train.steps=3."""
    return [part for key, value in values.items()
            for part in ("--set", f"{key.replace('__', '.')}={value}")]


def exit_status(process):
    """As a shell has it: 128 + the signal for a process that a signal ended."""
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def read_checkpoint(path):
    """Every tensor, by name: type, shape and bytes; and the metadata."""
    data = pathlib.Path(path).read_bytes()
    header_end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:header_end])
    metadata = header.pop("__metadata__")
    return {name: (entry["dtype"], entry["shape"],
                   data[header_end:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}, metadata


# Seconds after which a test gives up on what it waits for. It says that something hangs, not that it is slow; before
# ctest does, so that what the test has started is ended.
HANGS = 300


def wait_until(condition, what, timeout=HANGS):
    """Polls often: some tests need a moment of a run that lasts a fraction of a second."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(0.001)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, **more):
        """Starts the program in the test's folder; it does not outlive the test."""
        process = subprocess.Popen(
            [os.environ["DEQ_BINARY"], *map(str, arguments)], cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def deq(self, *arguments, status=0, **more):
        """Runs the program in the test's folder and checks its exit status."""
        result = subprocess.run(
            [os.environ["DEQ_BINARY"], *map(str, arguments)], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def assert_one_sentence(self, stderr):
        self.assertTrue(stderr.startswith("deq: "), stderr)
        self.assertEqual(stderr.count("\n"), 1, stderr)

    def refused(self, *arguments, status=2, **more):
        """Runs it expecting a refusal: one sentence on standard error, nothing left behind."""
        before = self.tree()
        result = self.deq(*arguments, status=status, **more)
        self.assertEqual(result.stdout, "")
        self.assert_one_sentence(result.stderr)
        self.assertEqual(self.tree(), before)
        return result.stderr.removeprefix("deq: ").strip()

    def tree(self):
        return {path.relative_to(self.folder): path.read_bytes() if path.is_file() else None
                for path in self.folder.rglob("*")}

    def checkpoints(self, run):
        """Those of steps, the oldest first."""
        return sorted((self.folder / run / "checkpoints").glob("step-*.safetensors"))

    def weights(self, run):
        """Every tensor of the run's newest checkpoint, the optimiser's among them."""
        return read_checkpoint(self.checkpoints(run)[-1])[0]

    def metrics(self, run):
        """The lines of metrics.jsonl without what depends on the clock and the machine."""
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [{name: value for name, value in json.loads(line).items() if name not in TIMINGS}
                for line in lines]

    def evaluate(self, run, *more):
        """What deq eval measures, and apart from it what that cost."""
        result = json.loads(self.deq("eval", run, *more, "--json").stdout)
        names = [name for name in result if name in ("seconds", "peak_memory_mib") or name.endswith("_per_s")]
        return result, {name: result.pop(name) for name in names}

    def train(self, out="run", *more):
        """A short training run; returns its result."""
        result = self.deq("train", CONFIG, *SHORT, *more, "--out", out, "--json")
        return json.loads(result.stdout)
