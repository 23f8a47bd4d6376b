"""What passes and solves give can be kept: copied, pickled, printed, sent between processes."""

import copy
import pickle

import pytest
import torch

import deq
from conftest import TanhCell


class Solves(torch.nn.Module):
    """A model that keeps a plan and a solver of its own."""

    def __init__(self):
        super().__init__()
        self.layer = deq.Equilibrium(TanhCell(5))
        self.warm = deq.EquilibriumPlan(deq.EquilibriumOptions(forward=deq.Picard(max_evals=2, rtol=0.0)))
        self.exact = deq.Solver(deq.Anderson(rtol=1e-10))


def report_of(layer, x):
    """One with several outcomes in it."""
    x = x.clone()
    x[1, 2] = float("nan")
    return layer(x).report


MADE = {
    "plan": lambda layer, x: Solves().warm,
    "solver": lambda layer, x: Solves().exact,
    "key": lambda layer, x: deq.ProbeKey(2**63 + 5, first_sample=7),
    "report": report_of,
    "sample": lambda layer, x: report_of(layer, x).samples[1],
    "point": lambda layer, x: report_of(layer, x).trace[0],
    "radius": lambda layer, x: deq.spectral_radius(layer(x)),
    "tangent": lambda layer, x: deq.tangent(layer(x), [(x, x)]),
    "solution": lambda layer, x: deq.Solver(deq.Anderson()).solve(torch.cos, x),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_records_can_be_copied_and_pickled(make, cell, x):
    layer = deq.Equilibrium(cell)
    x.requires_grad_(make is MADE["tangent"])
    made = make(layer, x)
    for twin in (copy.deepcopy(made), copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert type(twin) is type(made)
        assert repr(twin) == repr(made) and " object at " not in repr(made)
        if hasattr(made, "to_dict"):
            assert str(twin.to_dict()) == str(made.to_dict())
        for name in ("z", "along"):
            if hasattr(made, name):
                assert torch.equal(getattr(twin, name), getattr(made, name))


def test_what_is_made_of_options_says_so():
    assert eval(repr(deq.ProbeKey(3)), vars(deq)).key == 3
    plan = deq.EquilibriumPlan(deq.EquilibriumOptions(start_noise=0.25))
    assert eval(repr(plan), vars(deq)).options == plan.options
    solver = deq.Solver(deq.Picard(damping=0.5))
    assert eval(repr(solver), vars(deq)).options == solver.options


def test_a_linearization_says_its_size(cell, x):
    assert repr(deq.Equilibrium(cell)(x).linearization()) == "<Linearization: 3 samples of 5 numbers>"


def test_a_model_that_keeps_a_plan_can_be_copied(x):
    model = Solves()
    for twin in (copy.deepcopy(model), torch.optim.swa_utils.AveragedModel(model).module):
        assert twin.layer(x, plan=twin.warm).report.evaluations == 2
        assert twin.layer(x, solver=twin.exact).report.max_relative <= 1e-10


class Reports(torch.utils.data.Dataset):
    def __init__(self):
        self.layer = deq.Equilibrium(TanhCell(5)).eval()

    def __len__(self):
        return 3

    def __getitem__(self, i):
        with torch.no_grad():
            return self.layer(torch.full((2, 5), float(i), dtype=torch.float64)).report


def test_a_worker_sends_reports():
    reports = Reports()
    found = list(torch.utils.data.DataLoader(reports, batch_size=None, num_workers=1, timeout=60))
    assert [report.evaluations for report in found] == [reports[i].evaluations for i in range(3)]


def test_numbers_of_all_samples_are_tensors(cell, x):
    report = report_of(deq.Equilibrium(cell), x)
    assert report.statuses == [sample.status for sample in report.samples] == ["converged", "non-finite values", "converged"]
    assert report.sample_evaluations.dtype == torch.int64
    assert report.sample_evaluations.tolist() == [sample.evaluations for sample in report.samples]
    for name in ("absolute", "relative"):
        numbers = getattr(report, name)
        assert numbers.dtype == torch.float64
        torch.testing.assert_close(
            numbers, torch.tensor([getattr(s, name) for s in report.samples], dtype=torch.float64), equal_nan=True, rtol=0, atol=0
        )
    assert len(deq.Equilibrium(cell)(x).adjoint.relative) == 0, "a solve that has not run has no samples"
