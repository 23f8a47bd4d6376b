"""Where Python people put a layer: threads, copies, compilers, processes, modes."""

import copy
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest
import torch
import torch.utils.checkpoint

import deq
from conftest import TanhCell, interrupted

EXACT = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))


def gradients(layer, x):
    layer.zero_grad()
    layer(x).z.square().sum().backward()
    return [p.grad.clone() for p in layer.parameters()]


def assert_all_close(found, expected, **tolerances):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, **tolerances)


def test_no_grad_and_inference_mode(cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    expected = layer(x).z.detach()
    with torch.no_grad():
        eq = layer(x)
        assert not eq.z.requires_grad
        torch.testing.assert_close(eq.z, expected)
    with torch.inference_mode():
        eq = layer(x)
        assert not eq.z.requires_grad
        torch.testing.assert_close(eq.z, expected)


def test_a_pass_in_inference_mode_leaves_nothing_behind(cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    with torch.inference_mode():
        layer(x)
    expected = gradients(deq.Equilibrium(cell, **EXACT), x)
    assert_all_close(gradients(layer, x), expected)


def vmapped(solve, x):
    return torch.func.vmap(lambda sample: solve(sample[None])[0])(x)


def with_tangent(solve, x):
    with torch.autograd.forward_ad.dual_level():
        return solve(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


TRANSFORMS = {
    "grad": lambda solve, x: torch.func.grad(lambda x: solve(x).sum())(x),
    "vjp": lambda solve, x: torch.func.vjp(solve, x),
    "jvp": lambda solve, x: torch.func.jvp(solve, (x,), (x,)),
    "vmap": vmapped,
    "forward mode": with_tangent,
    "forward mode, no_grad": lambda solve, x: torch.no_grad()(with_tangent)(solve, x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_what_transforms_a_pass_is_refused(transform, cell, x):
    model = deq.models.MonotoneDEQ(image_channels=1, image_size=5, channels=[2]).double()
    ways = [
        lambda x: deq.Equilibrium(cell)(x).z,
        lambda x: deq.fixed_point(lambda z: torch.tanh(0.5 * z + x), torch.zeros(x.shape, dtype=x.dtype)).z,
        lambda x: model(x.reshape(-1, 1, 1, 5).expand(-1, 1, 5, 5)).logits,
    ]
    for solve in ways:
        with pytest.raises(deq.Error, match="inside of torch.func.* use ordinary autograd .*, or deq.tangent"):
            transform(solve, x)
    solve(x)


def test_autocast(x):
    cell = TanhCell(5, dtype=torch.float32)
    layer = deq.Equilibrium(cell)
    x = x.float()
    seen = []
    hook = cell.w.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        eq = layer(x)
    hook.remove()
    assert set(seen) == {torch.bfloat16}
    assert eq.z.dtype == torch.float32
    eq.z.sum().backward()
    reference = layer(x)
    torch.testing.assert_close(eq.z, reference.z, rtol=0.05, atol=0.02)
    assert cell.w.weight.grad.dtype == torch.float32


def test_float32_evals_finish_a_solve_outside_of_autocast(x):
    cell = TanhCell(5, dtype=torch.float32)
    rounded = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-5)).eval()
    finished = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-5), float32_evals=40).eval()
    x = x.float()
    with torch.no_grad():
        expected = rounded(x).z
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not rounded(x).report.converged
            eq = finished(x)
    assert eq.report.converged
    torch.testing.assert_close(eq.z, expected, rtol=1e-4, atol=1e-5)


def test_deepcopy_has_parameters_of_its_own(cell, x):
    layer = deq.Equilibrium(cell, on_failure="raise", **EXACT)
    expected = gradients(layer, x)
    twin = copy.deepcopy(layer)
    assert twin.options == layer.options
    assert_all_close(gradients(twin, x), expected)
    with torch.no_grad():
        twin.f.w.weight.zero_()
    assert_all_close(gradients(layer, x), expected)
    assert twin(x).z.ne(layer(x).z).any()


def test_pickling(cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    twin = pickle.loads(pickle.dumps(layer))
    assert twin.options == layer.options
    assert torch.equal(twin(x).z, layer(x).z)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x).z, layer(x).z)


def test_a_copy_of_a_function_with_parameters_is_refused(cell):
    layer = deq.Equilibrium(lambda z, x: cell(z, x), cell.parameters())
    with pytest.raises(deq.Error, match="make f a torch.nn.Module"):
        copy.deepcopy(layer)
    copy.deepcopy(deq.Equilibrium(lambda z, x: torch.tanh(z + x)))


def test_state_dict_has_the_names_of_the_module(cell, x):
    layer = deq.Equilibrium(cell)
    assert list(layer.state_dict()) == ["f.w.weight", "f.u.weight", "f.u.bias"]
    other = deq.Equilibrium(TanhCell(5))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x).z, layer(x).z)


def test_a_layer_moves_between_types(cell, x):
    layer = deq.Equilibrium(cell)
    assert layer.float()(x.float()).z.dtype == torch.float32


def test_several_layers_and_calls_in_one_graph(cell, x):
    one, two = deq.Equilibrium(cell, **EXACT), deq.Equilibrium(TanhCell(5), **EXACT)

    def value(x):
        first = one(x).z
        return two(first).z + one(0.5 * first).z

    assert torch.autograd.gradcheck(value, (x.requires_grad_(),), eps=1e-5, atol=1e-6)


def test_a_layer_inside_of_a_layers_function(x):
    inner = deq.Equilibrium(lambda z, x: torch.tanh(0.3 * z + x), **EXACT)
    outer = deq.Equilibrium(lambda z, x: 0.4 * inner(z + x).z, **EXACT)
    assert torch.autograd.gradcheck(lambda x: outer(x).z, (x.requires_grad_(),), eps=1e-5, atol=1e-6)


def energy_descent(z, x):
    """A step down an energy, whose gradient f takes itself."""
    with torch.enable_grad():
        point = z if z.requires_grad else z.detach().requires_grad_()
        energy = (0.5 * point.square() + torch.log(torch.cosh(point - x))).sum()
        (slope,) = torch.autograd.grad(energy, point, create_graph=True)
    return z - 0.3 * slope


def test_f_may_run_autograd_inside(x):
    layer = deq.Equilibrium(energy_descent, **EXACT)
    eq = layer(x.requires_grad_())
    z = eq.z.detach()
    torch.testing.assert_close(z + torch.tanh(z - x.detach()), torch.zeros_like(z), rtol=0, atol=1e-9)
    eq.z.sum().backward()
    # From z + tanh(z − x) = 0:  dz/dx = s / (1 + s) with s = 1 − tanh²(z − x).
    s = 1 - torch.tanh(z - x.detach()) ** 2
    torch.testing.assert_close(x.grad, s / (1 + s))


@pytest.mark.parametrize("inside", [False, True], ids=["plain", "autograd inside"])
def test_threads_get_what_one_thread_gets(inside, cell):
    layer = deq.Equilibrium(energy_descent if inside else cell, **EXACT)
    inputs = [torch.randn(4, 5, dtype=torch.float64) for _ in range(8)]

    def value_and_gradient(x):
        x = x.clone().requires_grad_()
        z = layer(x).z
        (gradient,) = torch.autograd.grad(z.square().sum(), x)
        return z.detach(), gradient

    expected = [value_and_gradient(x) for x in inputs]
    found = [None] * len(inputs)
    failures = []

    def work(i):
        try:
            for _ in range(5):
                found[i] = value_and_gradient(inputs[i])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a thread hangs"
    assert failures == []
    for a, b in zip(found, expected):
        assert_all_close(a, b)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_around_it(use_reentrant, cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    head = torch.nn.Linear(5, 2, dtype=x.dtype)
    evaluations = 0

    def count(module, inputs):
        nonlocal evaluations
        evaluations += 1

    def block(x):
        return torch.tanh(head(layer(x).z))

    def measured(run):
        nonlocal evaluations
        evaluations = 0
        layer.zero_grad()
        head.zero_grad()
        y = run().square().sum()
        y.backward()
        return [p.grad.clone() for p in (*layer.parameters(), *head.parameters())], evaluations

    x.requires_grad_()
    cell.register_forward_pre_hook(count)
    expected, once = measured(lambda: block(x))
    found, spent = measured(lambda: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant))
    assert_all_close(found, expected)
    assert spent <= 2 * once


class Failure(Exception):
    pass


def test_an_exception_of_f_comes_out_as_it_is(x):
    calls = 0

    def f(z, x):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Failure("in the third evaluation")
        return torch.tanh(0.5 * z + x)

    with pytest.raises(Failure, match="in the third evaluation") as raised:
        deq.Equilibrium(f)(x)
    assert any(entry.name == "f" for entry in raised.traceback), "the traceback leads into f"
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        deq.Equilibrium(lambda z, x: z @ torch.zeros(4, 4, dtype=z.dtype))(x)


class BackwardFails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return z.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise Failure("in backward")


def test_an_exception_in_fs_backward_comes_out_as_it_is(x):
    eq = deq.Equilibrium(lambda z, x: BackwardFails.apply(torch.tanh(0.5 * z + x)))(x.requires_grad_())
    with pytest.raises(Failure, match="in backward"):
        eq.z.sum().backward()


def test_an_exception_of_a_callback_comes_out_as_it_is(cell, x):
    def fail(progress):
        raise Failure("in the callback")

    with pytest.raises(Failure, match="in the callback"):
        deq.Equilibrium(cell)(x, callback=fail)


ENDLESS = "rtol=0.0, max_evals=10**9, stagnation_window=0"
# Each would go on for hours. That of x − z at its fixed point has J = −I, and only some solvers can.
SOLVES = {
    "forward": f"deq.Equilibrium(torch.sub, forward=deq.Picard({ENDLESS}))(x)",
    "adjoint": f"layer(gradient=deq.Implicit(solver=deq.Picard({ENDLESS})))(x).z.sum().backward()",
    "truncated": "layer(gradient=deq.Truncated(terms=10**9))(x).z.sum().backward()",
    "phantom": "layer(gradient=deq.Phantom(steps=10**9))(x)",
    "reversible": "layer(gradient=deq.Reversible(steps=10**9))(x)",
    "spectrum": "deq.spectral_radius(layer()(x), max_products=10**9, tolerance=-1.0)",
    "model": f"wild_model(forward=deq.Picard({ENDLESS}))(torch.randn(1, 3, 16, 16))",
}


@pytest.mark.parametrize("solve", SOLVES)
def test_ctrl_c_stops_a_solve(solve):
    assert interrupted(SOLVES[solve]) == "stopped\n"


def test_other_threads_run_during_a_solve():
    """The solver gives the interpreter's lock up between evaluations: f here calls nothing that does."""
    counted, seen = [0], []
    go_on = threading.Event()
    go_on.set()

    def count():
        while go_on.is_set():
            counted[0] += 1
            time.sleep(0)

    def f(z, one, other):
        seen.append(counted[0])
        return one if len(seen) % 2 else other

    layer = deq.Equilibrium(f, forward=deq.Picard(rtol=0.0, max_evals=200, stagnation_window=0))
    one, other = torch.ones(64, 20000), -torch.ones(64, 20000)  # what the solver does with them takes a while
    thread = threading.Thread(target=count, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that nobody who has the lock is asked for it
    try:
        thread.start()
        with torch.no_grad():
            layer(one, other)
    finally:
        go_on.clear()
        sys.setswitchinterval(interval)
    thread.join(timeout=60)
    assert len(seen) == 200 and seen[-1] > seen[0]


def test_a_compiled_model_breaks_its_graph_at_the_layer(cell, x):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before = torch.nn.Linear(5, 5, dtype=torch.float64)
            self.layer = deq.Equilibrium(cell, **EXACT)
            self.after = torch.nn.Linear(5, 2, dtype=torch.float64)

        def forward(self, x):
            eq = self.layer(torch.relu(self.before(x)))
            return self.after(eq.z), 0.1 * deq.jacobian_penalty(eq, key=deq.ProbeKey(1))

    model = Model()

    def run(f):
        model.zero_grad()
        y, penalty = f(x)
        (y.square().sum() + penalty).backward()
        return [p.grad.clone() for p in model.parameters()]

    expected = run(model)
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    assert_all_close(run(torch.compile(model, backend=backend)), expected)
    traced = [str(graph.graph) for graph in graphs]
    assert any("relu" in text for text in traced)
    assert not any("tanh" in text for text in traced), "f is not looked into"


WORKER = """
    import os, sys, torch, deq
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    rank, folder, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    dist.init_process_group("gloo", init_method="file://" + folder + "/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    from conftest import TanhCell

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = deq.Equilibrium(TanhCell(5), forward=deq.Anderson(rtol=1e-12, max_evals=100),
                                         gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))
            self.head = torch.nn.Linear(5, 2, dtype=torch.float64)

        def forward(self, x):
            eq = self.layer(x)
            return self.head(eq.z), eq

    model = Model()
    x = torch.randn(4, 5, dtype=torch.float64)
    alone = Model()
    alone.load_state_dict(model.state_dict())
    alone(x)[0].square().mean().backward()
    expected = [p.grad for p in alone.parameters()]

    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=sys.argv[4] == "True")
    reduced = []
    def average(state, bucket):
        reduced.append(bucket.buffer().numel())
        return allreduce_hook(None, bucket)
    parallel.register_comm_hook(None, average)
    parallel(x[2 * rank : 2 * rank + 2])[0].square().mean().backward()
    for found, wanted in zip((p.grad for p in model.parameters()), expected):
        torch.testing.assert_close(found, wanted)
    assert sum(reduced) == sum(p.numel() for p in model.parameters())
    print("rank", rank, "agrees")
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("find_unused", [False, True])
def test_two_processes_average_their_gradients(find_unused):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(WORKER), str(rank), folder, folder, str(find_unused)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(2)
        ]
        try:
            outputs = [rank.communicate(timeout=120) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    for i, (out, err) in enumerate(outputs):
        assert f"rank {i} agrees" in out, err


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_thousand_solves_leave_nothing_behind():
    layer = deq.Equilibrium(TanhCell(32, dtype=torch.float32))
    x = torch.randn(16, 32)

    def solve(times):
        for _ in range(times):
            eq = layer(x, callback=lambda progress: progress.z is not progress.f)
            (eq.z.sum() + deq.jacobian_penalty(eq)).backward()

    def live_tensors():
        gc.collect()
        return sum(type(o) is torch.Tensor for o in gc.get_objects())

    solve(100)
    tensors, before = live_tensors(), resident_bytes()
    solve(1000)
    assert live_tensors() == tensors
    # One slab is 2 KiB; a leak of one per solve would be 2 MiB.
    assert resident_bytes() - before < 1.5 * 2**20


def test_importing_needs_no_driver():
    program = "import deq; available, reason = deq.cuda_status(); print(available, '|', reason)"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120, check=True
    )
    assert result.stdout == "False | CUDA_VISIBLE_DEVICES hides all GPUs\n"


def test_another_torch_is_refused_with_what_to_install():
    from deq import _torch_version

    _torch_version.check(torch.__version__)
    with pytest.raises(ImportError, match=r"was built for torch 2.11, and torch 2.10.1.* is installed: run `python -m"):
        _torch_version.check("2.10.1+cpu")
