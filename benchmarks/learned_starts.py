#!/usr/bin/env python3
"""What learned starts are worth where a solve may take a few evaluations only, on a small multiscale DEQ.

    OMP_NUM_THREADS=1 python3 benchmarks/learned_starts.py build/release/bin/deq DIR [--steps 300] [--seeds 1 2 3]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. One line of JSON for each training: the mean relative
residual and the accuracy on test pictures when the solver stops after so many evaluations.
"""

import argparse
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
SETTINGS = {
    "plain": {},
    "skip": {"model.predicted_start": "true", "train.start_penalty": 1},
    "skip, weight 0.1": {"model.predicted_start": "true", "train.start_penalty": 0.1},
    "skip-reg": {"train.step_penalty": 1},
    "skip-reg, weight 0.1": {"train.step_penalty": 0.1},
    "step penalty": {"train.step_penalty": 1, "train.step_evals": 4},
    "skip and step penalty": {
        "model.predicted_start": "true",
        "train.start_penalty": 1,
        "train.step_penalty": 1,
        "train.step_evals": 4,
    },
}
BUDGETS = (1, 2, 3, 4, 6, 8, 30)


def lines_of(program, *arguments):
    output = subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def measured(program, config, run, overrides):
    given = [part for key, value in overrides.items() for part in ("--set", f"{key}={value}")]
    lines_of(program, "train", config, *given, "--out", run, "--json")
    row = {}
    for line in lines_of(program, "eval", run, "--budgets", ",".join(map(str, BUDGETS)), "--json"):
        row[f"residual@{line['budget']}"] = float(f"{line['residual']:.3g}")
        row[f"accuracy@{line['budget']}"] = round(line["accuracy"], 1)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "small.toml"
        config.write_text(CONFIG.format(folder=arguments.folder.resolve()))
        for seed in arguments.seeds:
            for name, setting in SETTINGS.items():
                overrides = {"seed": seed, "train.steps": arguments.steps, **setting}
                run = pathlib.Path(folder) / f"{name.replace(' ', '-')}-{seed}"
                row = measured(arguments.program.resolve(), config, run, overrides)
                print(json.dumps({"setting": name, "seed": seed, **row}), flush=True)


if __name__ == "__main__":
    main()
