"""What the documentation shows runs, and the reference is that of the stubs."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import deq

SOURCE = pathlib.Path(os.environ.get("DEQ_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (SOURCE / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page, fewest", [("README.md", 1), ("docs/python.md", 8)])
def test_the_code_of_a_page_runs(page, fewest, capsys):
    blocks = python_blocks(page)
    assert len(blocks) >= fewest
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    # The page's loop learns: its last loss is below its first.
    losses = [float(line.split(":")[0]) for line in capsys.readouterr().out.splitlines() if "converged after" in line]
    assert len(losses) == 4 and losses[-1] < losses[0]


def test_the_loop_of_a_reasoner_runs():
    (block,) = python_blocks("docs/reasoning.md")
    names = {}
    exec(compile(block, "docs/reasoning.md", "exec"), names)
    assert names["found"].contents.shape == (8, 16) and names["loss"].isfinite()


def test_the_roots_of_the_guide_are_right():
    names = {}
    block = next(block for block in python_blocks("docs/python.md") if "a / z" in block)
    exec("import torch, deq\n" + block, names)
    torch.testing.assert_close(names["root"].z.detach(), torch.full((1, 3), 2**0.5))
    torch.testing.assert_close(names["a"].grad, torch.full((3,), 0.5 / 2**0.5), rtol=1e-4, atol=0)


def test_the_graph_of_the_guide_is_solved_as_one_sample():
    torch.manual_seed(0)
    names = {}
    block = next(block for block in python_blocks("docs/python.md") if "GraphCell" in block)
    exec("import torch, deq\n" + block, names)
    eq, cell, nodes = names["eq"], names["graph"].f, names["nodes"]
    assert eq.report.converged and eq.report.evaluations < 20 and len(eq.report.samples) == 1
    z = torch.zeros(1, 12, 4)
    with torch.no_grad():
        for _ in range(200):
            z = cell(z, nodes[None])
    torch.testing.assert_close(eq.z.detach(), z, rtol=1e-2, atol=1e-3)
    assert deq.dense_jacobian(eq).shape == (1, 48, 48), "with what passes between nodes"


def test_the_guide_names_every_option_class():
    text = (SOURCE / "docs/python.md").read_text()
    for name in ("Picard", "Anderson", "Broyden", "LimitedBroyden", "NewtonKrylov"):
        assert name in text and hasattr(deq, name)


def test_the_notebook_shows_what_it_says():
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads((SOURCE / "examples/python/equilibrium_layer.ipynb").read_text())
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "the notebook is kept without its output"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["eq"].report.converged
    _, plain_error, plain_evaluations, plain_radius = names["curves"][0.0][-1]
    _, error, evaluations, radius = names["curves"][1.0][-1]
    assert radius < 0.8 * plain_radius
    assert evaluations < plain_evaluations
    assert max(error, plain_error) < 0.5 * names["curves"][0.0][0][1]


def test_the_reference_is_that_of_the_stubs():
    result = subprocess.run(
        [sys.executable, SOURCE / "scripts/python_reference.py", "--check"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
