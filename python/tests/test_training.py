"""Trainer: the program's training, with callbacks in Python."""

import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

import deq

CONFIG = """
experiment = "synthetic"
[data]
train_samples = 128
valid_samples = 32
[train]
epochs = 4
batch_size = 16
log_every = 4
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "small.toml").write_text(CONFIG)
    return tmp_path / "small.toml"


def weights(run):
    return load_file(sorted(pathlib.Path(run).glob("checkpoints/step-*.safetensors"))[-1])


def test_a_callback_sees_every_row_and_the_result_comes_back(config, tmp_path):
    seen = []
    trainer = deq.Trainer(config, out=tmp_path / "run", settings={"train.lr": 1e-3, "train.eval_budgets": [2, 3]})
    result = trainer.run(seen.append)
    assert seen == deq.read_metrics(tmp_path / "run")
    assert result["step"] == 32 and result["mse@3"] == seen[-1]["mse@3"]


def test_the_run_folder_is_by_default_the_programs(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = {"train.epochs": 1}
    (tmp_path / "based.toml").write_text('base = "small.toml"\n[train]\nepochs = 1\n')
    first = deq.Trainer(config, settings=quick)
    assert first.run()["step"] == 8
    assert deq.read_metrics("runs/synthetic")
    second = deq.Trainer("based.toml")
    assert second.run_folder == pathlib.Path("runs/synthetic-2")
    assert second.run()["step"] == 8
    # The program's own choice is the next one.
    command = [sys.executable, "-m", "deq_program", "train", str(config), "--set", "train.epochs=1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110).stdout
    assert "runs/synthetic-3" in said
    with pytest.raises(deq.Error, match="nothing.toml"):
        deq.Trainer("nothing.toml").run()


def test_a_stopped_training_goes_on_to_the_same_bits(config, tmp_path):
    longer = {"train.epochs": 400, "jacobian.gamma": {"schedule": "linear", "from": 0.0, "to": 1.0, "begin": 0, "end": 50}}
    deq.Trainer(config, out=tmp_path / "straight", settings=longer).run()
    trainer = deq.Trainer(config, out=tmp_path / "stopped", settings=longer)
    seen = []

    def stop_at_once(row):
        seen.append(row)
        return False

    assert trainer.run(stop_at_once) is None
    assert len(seen) == 1
    rows = []
    assert trainer.resume(rows.append)["step"] == 3200
    assert rows and rows == deq.read_metrics(tmp_path / "stopped")[-len(rows) :]
    straight, stopped = weights(tmp_path / "straight"), weights(tmp_path / "stopped")
    assert straight.keys() == stopped.keys()
    assert all(torch.equal(straight[name], stopped[name]) for name in straight)


def test_an_exception_in_a_callback_stops_and_saves(config, tmp_path):
    trainer = deq.Trainer(config, out=tmp_path / "run", settings={"train.epochs": 4000})

    def fail(row):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.run(fail)
    assert weights(tmp_path / "run")


def test_a_signal_that_nobody_catches_any_more(config, tmp_path, monkeypatch):
    """A training that is asked to stop while it ends is stopped; one that is ended by others has failed."""
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, signal, sys, time\n"
        "folder = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
        "folder.mkdir()\n"
        "(folder / 'metrics.jsonl').write_text('{\"step\": 1}\\n')\n"
        "if folder.name == 'ended': os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(100)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert deq.Trainer(config, out=tmp_path / "asked").run(lambda row: False) is None
    with pytest.raises(deq.Error, match="the training ended with status -15"):
        deq.Trainer(config, out=tmp_path / "ended").run(lambda row: True)


def test_settings_may_be_numbers_of_numpys(config, tmp_path):
    numpy = pytest.importorskip("numpy")
    settings = {"train.epochs": numpy.int64(1), "train.lr": numpy.float32(0.25), "train.eval_budgets": [torch.tensor(2)]}
    trainer = deq.Trainer(config, out=tmp_path / "run", settings=settings)
    assert trainer.run()["step"] == 8
    written = (tmp_path / "run" / "config.toml").read_text()
    assert "lr = 0.25\n" in written and "eval_budgets = [2]\n" in written
    with pytest.raises(TypeError, match="a setting is a ndarray"):
        deq.Trainer(config, settings={"train.lr": numpy.ones(2)})


def test_bad_input_is_one_sentence(config, tmp_path):
    def trainer(**settings):
        return deq.Trainer(config, out=tmp_path / "run", settings=settings)

    with pytest.raises(deq.Error, match=r"train.epochs=0: must be a whole number"):
        trainer(**{"train.epochs": 0}).run()
    with pytest.raises(deq.Error, match="unknown key"):
        trainer(**{"train.epoch": 3}).run()
    with pytest.raises(deq.Error, match="nothing.toml"):
        deq.Trainer(tmp_path / "nothing.toml", out=tmp_path / "run").run()
    with pytest.raises(deq.Error, match="run"):
        trainer().resume()
    with pytest.raises(TypeError, match="a setting is a object"):
        trainer(**{"train.lr": object()})
    assert not (tmp_path / "run").exists()
