"""Run folders: what Python reads of them is what the program says."""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import matplotlib.image
import pytest
import torch

import deq

FIXTURES = pathlib.Path(os.environ.get("DEQ_FIXTURES", pathlib.Path(__file__).parents[2] / "tests/fixtures"))
# One stream, read in one piece, so that the program's validation is one pass.
AT_ONCE = ["data.path=text", "data.eval_streams=1", "data.eval_segment=200", "data.eval_memory=0"]


def program(*words, cwd):
    command = [sys.executable, "-m", "deq_program", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110, check=True).stdout


@pytest.fixture
def folder(tmp_path):
    """With copies of the runs, which nobody writes to."""
    shutil.copytree(FIXTURES / "run-folders", tmp_path / "runs")
    return tmp_path / "runs"


def test_the_program_is_that_of_the_package(tmp_path):
    assert program("--version", cwd=tmp_path) == f"deq {deq.__version__}\n"


def test_metrics_are_rows(folder):
    rows = deq.read_metrics(folder / "synthetic")
    assert rows[0]["step"] == 200 and rows[0]["split"] == "train"
    assert {row["split"] for row in rows} == {"train", "valid"}
    with open(folder / "synthetic/metrics.jsonl", "a") as file:
        file.write('{"step": 99')
    assert deq.read_metrics(folder / "synthetic") == rows


def costs(folder, run, model, *more):
    """Of the validation text, as Python computes them, and what the program says of the run."""
    words = [word for line in (folder / "text/valid.txt").read_text().splitlines() for word in [*line.split(), "<eos>"]]
    tokens = torch.tensor([[model.classes.index(word) for word in words]])
    settings = [word for setting in AT_ONCE for word in ("--set", setting)]
    with torch.no_grad():
        output = model(tokens[:, :-1], tokens[:, 1:])
    return output, json.loads(program("eval", run, *more, *settings, "--json", cwd=folder))


@pytest.mark.parametrize("checkpoint", ["newest", "best"])
def test_a_loaded_language_model_costs_what_the_program_says(folder, checkpoint):
    model = deq.load(folder / "language", checkpoint)
    assert isinstance(model, deq.models.DEQTransformer) and not model.training
    output, said = costs(folder, "language", model, "--checkpoint", checkpoint)
    assert output.nll.mean().item() == pytest.approx(said["loss"], rel=1e-5)
    assert output.equilibrium.report.evaluations == said["nfe_forward"]


LOOPED = """
experiment = "language"
[data]
path = "text"
segment = 8
[model]
name = "looped"
cutoffs = [5, 9]
prelude = 1
core = 2
coda = 1
d_model = 16
d_embed = 16
heads = 2
d_head = 8
d_inner = 24
exits = [0.1]
[gradient]
name = "unrolled"
steps = 5
spread = 0.5
backpropagated = 2
[train]
steps = 2
batch_size = 4
"""


def test_a_loaded_looped_model_takes_as_many_loops_as_the_program(folder):
    (folder / "looped.toml").write_text(LOOPED)
    program("train", "looped.toml", "--out", "looped", cwd=folder)
    model = deq.load(folder / "looped")
    assert isinstance(model, deq.models.LoopedTransformer)
    output, said = costs(folder, "looped", model)
    assert output.nll.mean().item() == pytest.approx(said["loss"], rel=1e-5)
    assert output.equilibrium.report.evaluations == said["nfe_forward"] == 5 + 1  # one measures the residual


EXPLICIT = """
experiment = "language"
[data]
path = "text"
segment = 8
[model]
cutoffs = [5, 9]
d_embed = 16
{model}
[train]
steps = 2
batch_size = 4
"""
EXPLICIT_MODELS = {
    deq.models.AwdQrnn: 'name = "awd-qrnn"\nlayers = 2\nd_hidden = 24\nweight_dropout = 0.1\nactivation_penalty = 1.0',
    deq.models.RelationalMemory: 'name = "relational-memory"\nd_model = 16\nslots = 2\nheads = 2\nhead_size = 8\nmlp_layers = 2',
    deq.models.GPT2: 'name = "gpt2"\nlayers = 2\nd_model = 16\nheads = 2\nd_inner = 24\npositions = 400',
}


@pytest.mark.parametrize("kind", EXPLICIT_MODELS)
def test_a_loaded_explicit_network_costs_what_the_program_says(kind, folder):
    (folder / "explicit.toml").write_text(EXPLICIT.format(model=EXPLICIT_MODELS[kind]))
    program("train", "explicit.toml", "--out", "explicit", cwd=folder)
    model = deq.load(folder / "explicit")
    assert isinstance(model, kind)
    output, said = costs(folder, "explicit", model)
    assert output.nll.mean().item() == pytest.approx(said["loss"], rel=1e-5)


REASONING = """
experiment = "reasoning"
[data]
path = "puzzles"
[model]
width = 24
inner_multiple = 8
inner_steps = 2
damping = 0.5
start = "fixed"
[solver.forward]
name = "broyden"
max_evals = 6
[gradient]
name = "unrolled"
steps = 2
backpropagated = 1
[train]
steps = 3
batch_size = 8
"""


@pytest.mark.parametrize("kind", [["sudoku", "--boxes", "2x2"], ["maze", "--size", "5x5", "--path", "5:15"]])
def test_a_loaded_reasoner_answers_as_the_program(kind, folder):
    (folder / "reasoning.toml").write_text(REASONING)
    program("data", "make", kind[0], "puzzles", *kind[1:], "--train", 20, "--test", 30, cwd=folder)
    program("train", "reasoning.toml", "--out", "reasoning", cwd=folder)
    model = deq.load(folder / "reasoning")
    assert isinstance(model, deq.models.Reasoner)
    with open(folder / "puzzles/test.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    questions, answers = (
        torch.tensor([[model.classes.index(sign) for sign in row[side].replace("/", "")] for row in rows])
        for side in ("question", "answer")
    )
    said = json.loads(program("eval", "reasoning", "--json", cwd=folder))
    found = model.solve(questions)
    assert 100 * (found.contents == answers).double().mean().item() == pytest.approx(said["cells"])
    assert found.residual.mean().item() == pytest.approx(said["residual"], rel=1e-4)


IMAGES = """
experiment = "vision"
[data]
format = "folder"
path = "images"
image_size = 16
augment = false
[train]
steps = 2
batch_size = 4
"""
NETWORKS = {
    "mdeq": dict(channels=[8, 8], groups=4, head_channels=[4, 4], final_channels=8, dropout=0.0, classes=2),
    "resnet": dict(depth="18", stem="cifar", classes=2),
    "densenet": dict(depth="121", growth=4, stem="cifar", classes=2),
    "inception": dict(stem="cifar", classes=2),
    "monotone": dict(channels=[4], image_size=16, classes=2),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_loaded_classifier_scores_as_the_program_does(network, tmp_path):
    pictures = []
    for split in ("train", "test"):
        for label in range(2):
            folder = tmp_path / "images" / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(4):
                picture = torch.randint(0, 256, (16, 16, 3), dtype=torch.uint8)
                matplotlib.image.imsave(folder / f"{i}.png", picture.numpy())
                if split == "test":
                    pictures.append((picture.permute(2, 0, 1), label))
    (tmp_path / "small.toml").write_text(IMAGES)
    settings = {f"model.{name}": value for name, value in {"name": network, **NETWORKS[network]}.items()}
    settings["data.path"] = str(tmp_path / "images")
    result = deq.Trainer(tmp_path / "small.toml", out=tmp_path / "run", settings=settings).run()
    model = deq.load(tmp_path / "run")
    assert model.classes == ["class0", "class1"]
    mean, deviation = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    x = (torch.stack([picture for picture, _ in pictures]) / 255 - mean.view(3, 1, 1)) / deviation.view(3, 1, 1)
    with torch.no_grad():
        output = model(x)
    logits = output if isinstance(output, torch.Tensor) else output.logits
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([label for _, label in pictures]))
    assert loss.item() == pytest.approx(result["loss"], rel=1e-4)


def test_a_report_is_written(folder, tmp_path):
    page = deq.report(folder / "synthetic", out=tmp_path / "page.html")
    assert "<html" in page.read_text()


def test_what_cannot_be_read_is_named(folder, tmp_path):
    for use, message in [
        (lambda: deq.read_metrics(tmp_path), "metrics.jsonl: no such file"),
        (lambda: deq.load(tmp_path), "config.toml: no such file"),
        (
            lambda: deq.load(folder / "synthetic"),
            "is a run of synthetic, and Python has models of vision mdeq, .*language gpt2, reasoning only: evaluate it with",
        ),
        (lambda: deq.load(folder / "language", "latest"), "checkpoint is 'latest', must be 'newest' or 'best'"),
        (lambda: deq.report(out=tmp_path / "page.html"), "name at least one run folder"),
        (lambda: deq.report(tmp_path / "nothing", out=tmp_path / "page.html"), "nothing"),
    ]:
        with pytest.raises(deq.Error, match=message):
            use()
