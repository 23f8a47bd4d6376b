"""What other programs read of a run: TensorBoard its scalars, safetensors its checkpoints."""

import json
import os
import pathlib
import signal
import struct
import sys
import unittest

try:
    import numpy
    import safetensors
    import safetensors.numpy
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    python = pathlib.Path(os.environ.get("DEQ_TEST_PYTHON", ""))
    # The interpreter of a virtual environment is a link: its path tells it apart, not its target.
    if not python.is_file() or pathlib.Path(sys.executable) == python:
        print("skipped: DEQ_TEST_PYTHON names no Python with TensorBoard and safetensors")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

from program import CONFIG, ProgramTest, read_checkpoint, settings, wait_until

STEPS = 40
RECIPE = settings(
    train__steps=STEPS, train__batch_size=16, train__log_every=1, train__eval_every_steps=10,
    train__checkpoints__every_steps=7, train__eval_budgets=[2, 3], data__train_samples=256,
    data__valid_samples=32, jacobian__probability=0.6, jacobian__control__hold="residual",
    jacobian__control__target=1e-4, jacobian__control__every=5)


def as_float32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


class MonitoringTest(ProgramTest):
    def written(self, run):
        """What metrics.jsonl says, as TensorBoard should show it: {tag: [(step, value)]}."""
        scalars = {}
        for text in (self.folder / run / "metrics.jsonl").read_text().splitlines():
            line = json.loads(text)
            step, split = line.pop("step"), line.pop("split")
            for name, value in line.items():
                if isinstance(value, list):
                    continue  # a curve is no scalar
                scalars.setdefault(f"{split}/{name}", []).append((step, as_float32(value)))
        return scalars

    def shown(self, run):
        """What TensorBoard shows of the folder, every point of it."""
        events = event_accumulator.EventAccumulator(
            str(self.folder / run / "tensorboard"), size_guidance={event_accumulator.SCALARS: 0})
        events.Reload()
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)]
                for tag in events.Tags()["scalars"]}


class TensorBoard(MonitoringTest):
    def test_shows_what_metrics_jsonl_holds(self):
        self.deq("train", CONFIG, *RECIPE, "--out", "run", "--json")
        shown = self.shown("run")
        self.assertEqual(shown, self.written("run"))
        for tag in ("train/loss", "train/task_loss", "train/penalty", "train/gamma", "train/lr",
                    "train/nfe_forward", "train/residual", "train/held", "train/stopped.converged",
                    "valid/mse", "valid/mse@2", "valid/rho", "valid/nfe_to_1e-6.broyden"):
            self.assertIn(tag, shown)
        self.assertEqual([step for step, _ in shown["train/loss"]], list(range(1, STEPS + 1)))
        self.assertEqual([step for step, _ in shown["valid/mse"]], [10, 20, 30, 40])
        self.assertGreater(len({value for _, value in shown["train/gamma"]}), 3)  # it adapts

    def stop(self, arguments, signal_number, line):
        """Starts, sends a signal when this many lines are there, and waits for the end."""
        process = self.start(*arguments)
        metrics = self.folder / "run/metrics.jsonl"
        wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= line, "metrics")
        process.send_signal(signal_number)
        process.communicate()
        self.assertNotEqual(process.returncode, 0)

    def test_shows_every_step_once_after_interruptions(self):
        self.stop(["train", CONFIG, *RECIPE, "--out", "run"], signal.SIGINT, 5)
        # Killed between two checkpoints: the steps since the last one are done a second time.
        self.stop(["train", "--resume", "run"], signal.SIGKILL, 26)
        self.deq("train", "--resume", "run")
        shown = self.shown("run")
        self.assertEqual([step for step, _ in shown["train/loss"]], list(range(1, STEPS + 1)))
        self.assertEqual(len(list((self.folder / "run/tensorboard").iterdir())), 3)
        self.assertEqual(shown, self.written("run"))


class Safetensors(MonitoringTest):
    PARAMETERS = {"cell.w1", "cell.w2", "cell.u", "cell.b"}

    def setUp(self):
        super().setUp()
        self.deq("train", CONFIG, *RECIPE, "--out", "run", "--json")

    def test_names_types_and_values(self):
        for path in (self.checkpoints("run")[-1], self.folder / "run/checkpoints/best.safetensors"):
            tensors = safetensors.numpy.load_file(path)
            self.assertEqual({name for name in tensors if "/" not in name}, self.PARAMETERS)
            state = {name for name in tensors if "/" in name}
            self.assertEqual({name.split("/")[0] for name in state}, {"optimiser"})
            self.assertEqual({name.split("/")[2] for name in state}, self.PARAMETERS)
            for name in self.PARAMETERS:
                moment = tensors[f"optimiser/exp_avg/{name}"]
                self.assertEqual(moment.shape, tensors[name].shape)
                self.assertTrue(numpy.any(moment != 0), name)
                self.assertTrue(numpy.all(tensors[f"optimiser/exp_avg_sq/{name}"] >= 0))
            self.assertEqual({str(array.dtype) for array in tensors.values()}, {"float32"})
            # The bytes that the other tests compare are those that this reader sees.
            for name, (_, shape, content) in read_checkpoint(path)[0].items():
                self.assertEqual(list(tensors[name].shape), shape)
                self.assertEqual(tensors[name].tobytes(), content)

    def test_metadata_holds_the_configuration_and_the_position(self):
        path = self.checkpoints("run")[-1]
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        self.assertEqual(metadata["config"], (self.folder / "run/config.toml").read_text())
        self.assertEqual(metadata["format"], "deq-checkpoint")
        state = json.loads(metadata["training_state"])
        self.assertEqual(state["step"], STEPS)
        self.assertEqual(state["best"], min(line["mse"] for line in self.metrics("run")
                                            if line["split"] == "valid"))
        if sys.version_info >= (3, 11):
            import tomllib
            config = tomllib.loads(metadata["config"])
            self.assertEqual(config["experiment"], "synthetic")
            self.assertEqual(config["train"]["steps"], STEPS)
            self.assertEqual(config["train"]["eval_budgets"], [2, 3])
            self.assertEqual(config["jacobian"]["control"]["hold"], "residual")


if __name__ == "__main__":
    unittest.main()
