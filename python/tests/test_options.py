"""Options: names, defaults, what is refused."""

import copy
import inspect
import pickle
import pydoc

import pytest

import deq

SOLVERS = [deq.Picard, deq.Anderson, deq.Broyden, deq.LimitedBroyden, deq.NewtonKrylov]
OTHERS = [
    deq.Implicit,
    deq.Truncated,
    deq.JacobianFree,
    deq.Shine,
    deq.Phantom,
    deq.Unrolled,
    deq.Reversible,
    deq.ConstantSchedule,
    deq.LinearSchedule,
    deq.StaircaseSchedule,
    deq.Schedule,
    deq.Hutchinson,
    deq.SpectralRadiusOptions,
    deq.EquilibriumOptions,
]


@pytest.mark.parametrize("options", SOLVERS + OTHERS, ids=lambda kind: kind.__name__)
def test_options_can_be_printed_copied_pickled_and_compared(options):
    made = options()
    assert repr(made).startswith(options.__name__ + "(")
    assert eval(repr(made), vars(deq)) == made
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(options())
    assert made != object()


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda kind: kind.__name__)
def test_a_solver_takes_tolerance_budget_and_guards(solver):
    made = solver(rtol=1e-5, atol=1e-7, scope="whole-batch", max_evals=7, stagnation_window=3, divergence_factor=10)
    wanted = dict(rtol=1e-5, atol=1e-7, scope="whole-batch", max_evals=7, stagnation_window=3, divergence_factor=10.0)
    assert wanted.items() <= made.to_dict().items()
    assert made.replace(max_evals=8).max_evals == 8
    assert made.max_evals == 7


@pytest.mark.parametrize("options", SOLVERS + OTHERS, ids=lambda kind: kind.__name__)
def test_an_unknown_option_is_refused_by_name(options):
    with pytest.raises(TypeError, match=f"{options.__name__} has no option 'threshold'"):
        options(threshold=1)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: deq.Anderson(memory="6"), "Anderson: memory is '6', must be a whole number"),
        (lambda: deq.Anderson(memory=1.5), "Anderson: memory is 1.5, must be a whole number"),
        (lambda: deq.Anderson(memory=True), "Anderson: memory is True, must be a whole number"),
        (lambda: deq.Anderson(rtol=None), "Anderson: rtol is None, must be a number"),
        (lambda: deq.Anderson(1e-3), "Anderson takes keywords only"),
        (lambda: deq.Broyden(line_search=1), "Broyden: line_search is 1, must be True or False"),
        (lambda: deq.Picard(scope="sample"), "'per-sample' or 'whole-batch'"),
        (lambda: deq.Implicit(solver="broyden"), "must be Picard, Anderson, Broyden, LimitedBroyden or NewtonKrylov"),
        (lambda: deq.Shine(refinement=3), "must be None, or Picard, Anderson, Broyden, LimitedBroyden or NewtonKrylov"),
        (lambda: deq.Schedule(stop="never"), "must be a whole number or None"),
    ],
)
def test_a_wrong_type_is_refused_with_what_is_allowed(make, message):
    with pytest.raises(TypeError) as refused:
        make()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: deq.Anderson(memory=0),
        lambda: deq.Picard(damping=2),
        lambda: deq.Broyden(rtol=-1),
        lambda: deq.NewtonKrylov(forcing=1),
        lambda: deq.Phantom(tau=0),
        lambda: deq.Unrolled(steps=0),
        lambda: deq.Shine(fallback=0),
        lambda: deq.Shine(refinement=deq.Picard().replace(max_evals=0)),
        lambda: deq.Reversible(beta=1),
        lambda: deq.Hutchinson(probes=0),
        lambda: deq.LinearSchedule(begin=2, end=1),
        lambda: deq.EquilibriumOptions(float32_evals=-1),
        lambda: deq.EquilibriumOptions(start_noise=-0.1),
    ],
)
def test_a_value_out_of_range_is_refused(make):
    with pytest.raises(deq.Error, match="must be|≤|≥"):
        make()


def test_a_refinement_is_a_solver_or_none():
    refined = deq.Shine(refinement=deq.Anderson(memory=3))
    assert refined.refinement == deq.Anderson(memory=3)
    assert refined.replace(refinement=None) == deq.Shine()
    assert pickle.loads(pickle.dumps(refined)) == refined


def test_options_cannot_be_changed():
    with pytest.raises(AttributeError):
        deq.Anderson().memory = 3


@pytest.mark.parametrize("options", SOLVERS + OTHERS, ids=lambda kind: kind.__name__)
def test_help_shows_options_and_their_defaults(options):
    signature = inspect.signature(options)
    assert {name: shown.default for name, shown in signature.parameters.items()} == options().to_dict()
    assert all(shown.kind is shown.KEYWORD_ONLY for shown in signature.parameters.values())
    for name, default in options().to_dict().items():
        assert getattr(options, name).__doc__.endswith(f"Default: {default!r}.")


@pytest.mark.parametrize("options", SOLVERS + [deq.Shine, deq.Unrolled, deq.EquilibriumOptions], ids=lambda kind: kind.__name__)
def test_help_says_what_a_field_is(options):
    page = pydoc.render_doc(options, renderer=pydoc.plaintext)
    assert f"{options.__name__}{inspect.signature(options)}" in page
    for name in options().to_dict():
        assert not getattr(options, name).__doc__.startswith("Default"), name
        assert " ".join(getattr(options, name).__doc__.split()) in " ".join(page.replace("|", " ").split())


def test_everything_has_a_docstring():
    assert [name for name in deq.__all__ if not getattr(deq, name).__doc__] == []
    assert "one sentence" in deq.Error.__doc__ and "on_failure" in deq.ConvergenceError.__doc__


def test_schedules_give_the_numbers_they_describe():
    linear = deq.Schedule(shape=deq.LinearSchedule(from_=1, to=3, begin=10, end=20), stop=100)
    assert [linear.at(step) for step in (0, 10, 15, 20, 99, 100)] == [1, 1, 2, 3, 3, 0]
    stairs = deq.Schedule(shape=deq.StaircaseSchedule(start=1, increment=0.5, every=4))
    assert [stairs.at(step) for step in (0, 3, 4, 9)] == [1, 1, 1.5, 2]
    assert deq.Schedule(shape=deq.ConstantSchedule(value=2)).at(7) == 2
