"""get_deq: torchdeq's options, results and defaults."""

import argparse
import ast
import os
import pathlib
import re
import runpy
import warnings

import pytest
import torch

import deq

# Who reads these tests knows.
pytestmark = pytest.mark.filterwarnings("ignore:f_tol stops every sample", "ignore:simple_fixed_point_iter makes")

SOURCE = pathlib.Path(os.environ.get("DEQ_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
# All that torchdeq's add_deq_args defines, with its defaults.
PARSED = dict(
    f_solver="fixed_point_iter",
    b_solver="fixed_point_iter",
    f_max_iter=40,
    b_max_iter=40,
    f_tol=1e-3,
    b_tol=1e-6,
    f_stop_mode="abs",
    b_stop_mode="abs",
    eval_factor=1.0,
    eval_f_max_iter=0,
    norm_type="weight_norm",
    norm_no_scale=False,
    norm_clip=False,
    norm_clip_value=1.0,
    norm_target_norm=1.0,
    sn_n_power_iters=1,
    core="sliced",
    ift=False,
    hook_ift=False,
    n_states=1,
    indexing=[],
    gamma=0.8,
    grad=[1],
    tau=1.0,
    sup_gap=-1,
    sup_loc=[],
    jac_loss_weight=0.0,
    jac_loss_freq=0.0,
    jac_incremental=0,
    sradius_mode=False,
)
# The exact gradient of z = tanh(w z + x) is known.
EXACT = dict(ift=True, f_tol=1e-12, b_tol=1e-12, f_max_iter=100, b_max_iter=100)


def problem():
    w = torch.full((4,), 0.5, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 4, dtype=torch.float64)
    return w, x, torch.zeros_like(x)


@pytest.mark.parametrize("solver", ["fixed_point_iter", "anderson", "broyden"])
@pytest.mark.parametrize("mode", ["abs", "rel"])
def test_a_script_of_torchdeqs_gives_the_exact_gradient(solver, mode):
    w, x, z0 = problem()
    layer = deq.get_deq(f_solver=solver, b_solver=solver, f_stop_mode=mode, b_stop_mode=mode, **EXACT)
    z_out, info = layer(lambda z: torch.tanh(w * z + x), z0)
    z = z_out[-1]
    torch.testing.assert_close(z, torch.tanh(w * z + x))
    z.sum().backward()
    slope = 1 - z.detach() ** 2
    torch.testing.assert_close(w.grad, (slope * z.detach() / (1 - slope * w.detach())).sum(0))
    assert info["nstep"].shape == info["abs_lowest"].shape == info["rel_lowest"].shape == (3,)
    assert (info[f"{mode}_lowest"] <= 1e-12).all()
    assert info["sradius"].shape == (1,)


@pytest.mark.parametrize("solver, extra", [("fixed_point_iter", 0), ("anderson", 0), ("broyden", 1)])
def test_budgets_are_as_many_evaluations_as_torchdeq_makes(solver, extra):
    w, x, z0 = problem()
    calls, products = [], []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.clone()

        @staticmethod
        def backward(ctx, g):
            products.append(1)
            return g

    def f(z):
        calls.append(1)
        return torch.tanh(w * Counted.apply(z) + x)

    layer = deq.get_deq(ift=True, f_solver=solver, b_solver=solver, f_tol=0.0, b_tol=0.0, f_max_iter=7, b_max_iter=6)
    z = layer(f, z0)[0][-1]
    assert len(calls) == 7 + extra + 1  # and once more for the graph
    z.sum().backward()
    # torchdeq's first product is that of zero, and needs none; the last one sends u to w and x.
    assert len(products) == 6 - 1 + extra + 1


def test_a_list_of_states_comes_back_as_a_list():
    w, x, z0 = problem()
    layer = deq.get_deq(f_solver="anderson", **EXACT)
    (z_out,), _ = layer(lambda a, b: (torch.tanh(w * b + x), torch.tanh(a - x)), [z0, z0])
    assert isinstance(z_out, list)
    torch.testing.assert_close(z_out[0], torch.tanh(w * z_out[1] + x))


def test_the_default_gradient_is_that_of_one_phantom_step():
    w, x, z0 = problem()
    with pytest.warns(UserWarning, match="one phantom step"):
        layer = deq.get_deq(f_tol=1e-12, f_max_iter=200)
    z = layer(lambda z: torch.tanh(w * z + x), z0)[0][-1]
    z.sum().backward()
    slope = 1 - z.detach() ** 2
    torch.testing.assert_close(w.grad, (slope * z.detach()).sum(0))


def test_eval_mode_has_a_budget_of_its_own_and_the_spectral_radius():
    w, x, z0 = problem()
    layer = deq.get_deq(ift=True, f_tol=0.0, f_max_iter=6, eval_factor=2).eval()
    z_out, info = layer(lambda z: torch.tanh(w * z + x), z0, sradius_mode=True)
    assert not z_out[-1].requires_grad
    assert (info["nstep"] == 12).all()
    slope = 1 - z_out[-1] ** 2
    torch.testing.assert_close(info["sradius"], (slope * w.detach()).amax(1).float(), rtol=1e-3, atol=1e-3)
    assert (layer(lambda z: torch.tanh(w * z + x), z0, solver_kwargs={"f_max_iter": 3})[1]["nstep"] == 3).all()


@pytest.mark.parametrize(
    "options, kind, message",
    [
        (dict(f_maxiter=3), TypeError, "get_deq has no option 'f_maxiter'"),
        (dict(n_states=2), deq.Error, "no equal of n_states=2"),
        (dict(core="dense"), deq.Error, "no equal of core='dense'"),
        (dict(indexing=[3, 5]), deq.Error, "no equal of indexing="),
        (dict(sup_gap=2), deq.Error, "no equal of sup_gap=2"),
        (dict(ift=True, f_solver="newton"), deq.Error, "f_solver is 'newton', must be"),
        (dict(ift=True, f_stop_mode="max"), deq.Error, "f_stop_mode is 'max', must be 'abs' or 'rel'"),
        (dict(grad=[1, 2]), deq.Error, r"grad is \[1, 2\], must be one number"),
        (dict(args=3), TypeError, "args is a int, must be an argparse.Namespace"),
    ],
)
def test_what_has_no_equal_is_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        deq.get_deq(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deq.get_deq({"ift": True, "f_solver": "anderson"})


def test_a_namespace_of_torchdeqs_parser_is_taken_with_the_scripts_own_arguments():
    args = argparse.Namespace(**PARSED, lr=1e-3, epochs=3)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        layer = deq.get_deq(args, ift=True)
    assert all("does not use" not in str(warning.message) for warning in raised)
    assert layer.options() == deq.get_deq(ift=True).options()
    assert vars(args)["ift"] is False, "it is not changed"
    with pytest.raises(TypeError, match="get_deq has no option 'lr'"):
        deq.get_deq(vars(args))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(f_tol=1e-4, ift=True), "f_tol stops every sample by its own residual"),
        (dict(f_solver="simple_fixed_point_iter", ift=True), "its best state is returned"),
        (dict(hook_ift=True), "hook_ift is what ift is here"),
        (dict(ift=True, jac_loss_weight=0.5), r"does not use jac_loss_weight: add deq.jacobian_penalty"),
        (dict(ift=True, gamma=0.9), "does not use gamma"),
        (dict(ift=True, norm_type="spectral_norm"), r"does not use norm_type: normalise in prepare\(\)"),
        (dict(ift=True, no_stat=True), "does not use no_stat"),
    ],
)
def test_what_means_something_else_is_warned_of(options, message):
    with pytest.warns(UserWarning, match=message):
        deq.get_deq(**options)


@pytest.mark.parametrize(
    "solver, given, expected",
    [
        ("fixed_point_iter", dict(tau=0.5), dict(damping=0.5)),
        ("anderson", dict(m=3, lam=1e-4, tau=0.9), dict(memory=3, ridge=1e-4, ridge_scale="absolute", beta=0.9)),
        ("broyden", dict(LBFGS_thres=7, ls=True, return_final=False), dict(memory=7, line_search=True)),
        ("broyden", dict(LBFGS_thres=None, f_max_iter=9), dict(memory=60, max_evals=10)),
    ],
)
def test_solver_kwargs_are_those_of_torchdeqs_solver(solver, given, expected):
    layer = deq.get_deq(ift=True, f_solver=solver)
    assert expected.items() <= layer.options(given).forward.to_dict().items()
    w, x, z0 = problem()
    layer(lambda z: torch.tanh(w * z + x), z0, solver_kwargs=given)
    with pytest.raises(TypeError, match="solver_kwargs has no option 'threshold'"):
        layer(lambda z: torch.tanh(w * z + x), z0, solver_kwargs=dict(threshold=3))
    with pytest.raises(deq.Error, match="no equal of return_final"):
        layer(lambda z: torch.tanh(w * z + x), z0, solver_kwargs=dict(return_final=True))


def test_the_simple_iteration_makes_all_its_steps():
    w, x, z0 = problem()
    layer = deq.get_deq(ift=True, f_solver="simple_fixed_point_iter", f_max_iter=20)
    assert (layer(lambda z: torch.tanh(w * z + x), z0)[1]["nstep"] == 20).all()


def test_the_backward_pass_is_told_of():
    w, x, z0 = problem()
    told = []
    layer = deq.get_deq(ift=True, f_solver="anderson", b_solver="anderson")
    z = layer(lambda z: torch.tanh(w * z + x), z0, backward_writer=told.append)[0][-1]
    assert told == []
    z.sum().backward()
    assert len(told) == 1 and told[0]["abs_lowest"].shape == (3,) and (told[0]["abs_lowest"] <= 1e-6).all()


def rows_of_the_table():
    text = (SOURCE / "docs/python.md").read_text()
    table = text[text.index("| you wrote |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]


def written_options(code):
    """The keywords that a piece of code writes, with the names of those inside: {'forward.max_evals': 30}."""
    found = {}

    def visit(keywords, prefix):
        for keyword in keywords:
            name = prefix + keyword.arg
            if isinstance(keyword.value, ast.Call):
                found[name] = keyword.value.func.attr
                visit(keyword.value.keywords, name + ".")
            else:
                found[name] = ast.literal_eval(keyword.value)

    visit(ast.parse(f"f({code})").body[0].value.keywords, "")
    return found


@pytest.mark.filterwarnings("ignore:get_deq without ift")
def test_the_table_of_the_guide_says_what_get_deq_does():
    checked = 0
    for before, now in rows_of_the_table():
        left, right = re.search(r"`(.*?)`", before), re.search(r"`(.*?)`", now)
        code = "" if left is None else left[1]
        of_solver = re.match(r"solver_kwargs=(dict\(.*\))", code)
        if of_solver:
            solver = re.search(r"of (\w+)$", before)[1]
            options = deq.get_deq(ift=True, f_solver=solver.lower()).options(eval(of_solver[1]))
            now = f"forward={right[1]}"
        elif re.match(r"(get_deq\(|f_|ift|grad|$)", code) and re.match(r"(forward|gradient|rtol|atol)=", right[1]):
            options = deq.get_deq(**eval(f"dict({code.removeprefix('get_deq(').removesuffix(')')})")).options()
            now = right[1]
        else:
            continue
        for name, value in written_options(now).items():
            found = options if "." in name or name in ("forward", "gradient") else options.forward
            for part in name.split("."):
                found = getattr(found, part)
            found = type(found).__name__ if isinstance(getattr(deq, str(value), None), type) else found
            assert found == value, (before, name)
        checked += 1
    assert checked >= 9


def test_a_ported_script_learns_as_it_did():
    script = runpy.run_path(str(SOURCE / "examples/python/from_torchdeq.py"))
    before, ported = script["main"](["--steps", "30"])
    assert ported[-1] < 0.7 * ported[0]
    assert ported == pytest.approx(before, rel=1e-3)
