"""The stubs agree with the compiled core, and the package with its type checker."""

import ast
import os
import pathlib
import re
import site
import subprocess
import sys

import pytest
import torch

import deq
from deq import _core, _torch_version

SOURCE = pathlib.Path(os.environ.get("DEQ_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
STUB = ast.parse((SOURCE / "python/deq/_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
# Only for type checkers: aliases of types have no object at run time.
STUB_ONLY = {"f_is_compiled"}


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_the_stub_names_what_is_there():
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    assert public(CLASSES) | public(functions) == public(vars(_core)) - {"torch_version"}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_members_of_its_stub(name):
    stub = {
        member.target.id if isinstance(member, ast.AnnAssign) else member.name
        for member in CLASSES[name].body
        if isinstance(member, (ast.FunctionDef, ast.AnnAssign))
    }
    assert public(stub) - STUB_ONLY == public(vars(getattr(_core, name)))


OPTIONS = [name for name in CLASSES if hasattr(getattr(_core, name), "replace")]


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_the_defaults_of_their_stub(name):
    (made,) = [m for m in CLASSES[name].body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
    defaults = {
        argument.arg: ast.literal_eval(default) for argument, default in zip(made.args.kwonlyargs, made.args.kw_defaults)
    }
    actual = getattr(_core, name)().to_dict()
    assert list(defaults) == list(actual)
    for field, default in defaults.items():
        if default is not ...:
            assert default == actual[field], field


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_the_words_of_their_stub(name):
    for member in CLASSES[name].body:
        if isinstance(member, ast.FunctionDef) and isinstance(getattr(getattr(_core, name), member.name), property):
            shown, _, _ = getattr(_core, name).__dict__[member.name].__doc__.partition("Default: ")
            assert shown.strip() == (ast.get_docstring(member) or ""), member.name


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What the type checker knows of torch, which takes it most of a minute to find out."""
    return str(tmp_path_factory.mktemp("cache"))


def test_the_package_passes_its_type_checker(cache):
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", cache],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout + result.stderr


CELL = """
class Own(deq.Cell):
    def initial_state(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(len(x), 3)

    def prepare(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, None]:
        return x + y, None

    def step(self, z: torch.Tensor, sum: torch.Tensor, nothing: None) -> torch.Tensor:
        return torch.tanh(z + sum)
"""


def test_a_users_mistakes_are_found_by_their_type_checker(cache, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import deq, torch\n"
        "layer = deq.Equilibrium(torch.add, forward=deq.Anderson(rtol=1e-4), on_failure='raise')\n"
        "deq.Anderson(tol=1e-4)\n"
        "deq.Equilibrium(torch.add, solver=deq.Anderson())\n"
        "deq.Equilibrium(torch.add, on_failure='throw')\n"
        "layer(torch.zeros(2, 2)).repport\n"
        "deq.models.MDEQ()(torch.zeros(1, 3, 8, 8)).logitz\n"
        + CELL
    )
    packages = str(pathlib.Path(deq.__file__).parents[1])
    # An installed package is found by itself, and mypy refuses to be told of it.
    path = {} if packages in site.getsitepackages() else {"MYPYPATH": packages}
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", cache, str(program)],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        timeout=280,
    )
    lines = sorted({int(number) for number in re.findall(r"program\.py:(\d+): error", result.stdout)})
    assert lines == [3, 4, 5, 6, 7], result.stdout + result.stderr


def test_one_release_of_torch_is_named_everywhere():
    assert _core.torch_version.startswith(_torch_version.BUILT_WITH + ".")
    assert torch.__version__.startswith(_torch_version.BUILT_WITH + ".")
    project = (SOURCE / "pyproject.toml").read_text()
    assert f'"torch=={_torch_version.BUILT_WITH}.*"' in project
    assert f'\nversion = "{deq.__version__}"\n' in project
