"""Our files in the hands of their formats' own readers: safetensors and TensorBoard."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PYTHON = pathlib.Path(os.environ.get("DEQ_TEST_PYTHON", ""))
if not PYTHON.is_file():
    print("skipped: no TensorBoard and safetensors for Python (scripts/setup.sh --test)")
    sys.exit(77)
if pathlib.Path(sys.executable) != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])

import numpy
import safetensors
import safetensors.numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader


class Samples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run(
            [pathlib.Path(os.environ["DEQ_BUILD_DIR"]) / "bin/test_io", "--gtest_filter=Samples.*"],
            env={**os.environ, "DEQ_WRITE_SAMPLES": folder.name}, stdout=subprocess.DEVNULL, check=True)


class Checkpoint(Samples):
    def test_safetensors_reads_every_tensor(self):
        tensors = safetensors.numpy.load_file(self.folder / "sample.safetensors")
        expected = {
            "weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 4,
            "double": numpy.array([1 / 3]),
            "half": numpy.full(3, 0.5, numpy.float16),
            "mask": numpy.array([True, False, True, False, True]),
            "state": numpy.arange(5, dtype=numpy.uint8),
            "empty": numpy.zeros((0, 3), numpy.float32),
            "step": numpy.array(-12),
        }
        self.assertEqual(tensors.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertEqual(tensors[name].dtype, tensor.dtype, name)
            self.assertEqual(tensors[name].shape, tensor.shape, name)
            numpy.testing.assert_array_equal(tensors[name], tensor, name)

    def test_safetensors_reads_the_metadata(self):
        with safetensors.safe_open(self.folder / "sample.safetensors", "numpy") as file:
            metadata = file.metadata()
        self.assertRegex(metadata.pop("checksum"), "^[0-9a-f]{8}$")
        self.assertEqual(metadata, {"format": "deq-checkpoint", "format_version": "1",
                                    "config": 'name = "ρ"\n' + "#" * 65536})


class Events(Samples):
    def test_tensorboard_drops_what_a_resumed_session_repeats(self):
        accumulator = EventAccumulator(str(self.folder / "events"))
        accumulator.Reload()
        self.assertEqual(sorted(accumulator.Tags()["scalars"]), ["train/loss", "train/rate"])
        loss = {event.step: event.value for event in accumulator.Scalars("train/loss")}
        expected = {step: float(numpy.float32(1 / step)) for step in range(1, 7)} | {7: 70, 8: 80}
        self.assertEqual(loss, expected)
        # Gone although the second session never wrote this one.
        rate = [(event.step, event.value) for event in accumulator.Scalars("train/rate")]
        self.assertEqual(rate, [(step, step) for step in range(1, 7)])

    def test_tensorboard_reads_every_event(self):
        files = sorted((self.folder / "events").iterdir())
        events = [list(EventFileLoader(str(file)).Load()) for file in files]
        self.assertEqual([len(file) for file in events], [1 + 1 + 10, 1 + 1 + 2])
        for file in events:
            self.assertEqual(file[0].file_version, "brain.Event:2")
            times = [event.wall_time for event in file]
            self.assertEqual(times, sorted(times))
        self.assertEqual([event.step for event in events[0][2:]], list(range(1, 11)))


if __name__ == "__main__":
    unittest.main()
