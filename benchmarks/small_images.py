"""What benchmarks share that train a small multiscale DEQ on some pictures of CIFAR-10 through the program.

The folder of the data holds train/<class>/*.jpg and test/<class>/*.jpg.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

CONFIG = """experiment = "vision"
[data]
format = "folder"
path = "{folder}"
train_samples = 5000
valid_samples = 500
[model]
channels = [16, 16]
groups = 4
expansion = 3
dropout = 0.0
downsample_times = 1
head_channels = [4, 8]
final_channels = 64
[solver.forward]
name = "anderson"
max_evals = 8
rtol = 1e-3
[solver.adjoint]
name = "anderson"
max_evals = 8
rtol = 1e-3
[jacobian]
gamma = 0.1
[train]
batch_size = 32
lr = 2e-3
clip_norm = 1.0
log_every = 20
"""


def parser_of(description, steps):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    return parser


def sets(overrides):
    return [part for key, value in overrides.items() for part in ("--set", f"{key}={value}")]


class Small:
    """The program and the small model's configuration, in a folder for the runs."""

    def __init__(self, program, data, folder):
        self.program = program.resolve()
        self.folder = pathlib.Path(folder)
        self.config = self.folder / "small.toml"
        self.config.write_text(CONFIG.format(folder=data.resolve()))

    def command(self, *arguments):
        return [self.program, *map(str, arguments)]

    def run(self, name, seed):
        return self.folder / f"{name.replace(' ', '-').replace(',', '')}-{seed}"

    def training(self, run, overrides):
        return self.command("train", self.config, *sets(overrides), "--out", run, "--json")

    def train(self, run, overrides):
        subprocess.run(self.training(run, overrides), check=True, stdout=subprocess.DEVNULL)

    def evaluated(self, run, budgets, overrides=None):
        """One row for each budget."""
        tried = ",".join(map(str, budgets))
        command = self.command("eval", run, "--budgets", tried, *sets(overrides or {}), "--json")
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return [json.loads(line) for line in output.splitlines()]


def rounded(value):
    return float(f"{value:.3g}")


def by_budget(rows):
    row = {}
    for line in rows:
        row[f"residual@{line['budget']}"] = rounded(line["residual"])
        row[f"accuracy@{line['budget']}"] = round(line["accuracy"], 1)
    return row


@contextlib.contextmanager
def small_model(arguments):
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with tempfile.TemporaryDirectory() as folder:
        yield Small(arguments.program, arguments.folder, folder)
