"""Run folders written by hand: what a report makes of numbers that no short training gives."""

import json

CONFIG = """experiment = "vision"
[data]
format = "folder"
path = "images"
[model]
channels = [8, 8]
groups = 4
head_channels = [4, 4]
"""


def train_line(step, **more):
    return {"step": step, "split": "train", "seconds": step / 4, "loss": 2.0, "gamma": 0.5, "nfe_forward": 8.0, **more}


def valid_line(step, **more):
    return {"step": step, "split": "valid", "seconds": step / 4, "loss": 2.0, "accuracy": 50.0, "nfe_forward": 8.0,
            "residual": 1e-4, "rho": 0.7, "jacobian_norm": 3.0, **more}


def write_run(folder, lines, config="", environment=None):
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG + config)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if environment is not None:
        (folder / "environment.json").write_text(json.dumps(environment))
