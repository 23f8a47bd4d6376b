#!/usr/bin/env python3
"""libdeq against torchdeq on the same machine, in one run, at equal evaluations and tolerance.

    python3 benchmarks/compare_torchdeq.py [--repeats 5] [--out results.json]

Needs a Python with torch, numpy and torchdeq, and a release build (make build). Rounds of both
implementations alternate, so that a change in the machine's mood meets both; medians are compared.

1. Solvers: f(z) = a * z + x, B = 64, D = 61,440, float32, 20 evaluations, a tolerance never met.
2. Training: the paper's synthetic experiment, 50 epochs, the same model, weights' distribution, optimiser, solvers
   (Anderson, 6 evaluations each way) and tolerances, gamma = 2 with p = 0.4. torchdeq's Broyden ends in
   NaN on this one-dimensional state.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torchdeq import get_deq
from torchdeq.loss import jac_reg
from torchdeq.solver.anderson import anderson_solver
from torchdeq.solver.broyden import broyden_solver

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin"
BATCH, DIM = 64, 61440
GAMMA, PROBABILITY = 2.0, 0.4


def ours_solver(name: str) -> float:
    """Milliseconds of one solve by libdeq."""
    output = subprocess.run(
        [BUILD / "deq_benchmarks", f"--benchmark_filter=^solve/{name}/", "--benchmark_format=json",
         "--benchmark_min_time=1"],
        check=True, capture_output=True, text=True).stdout
    result = json.loads(output)["benchmarks"][0]
    assert result["time_unit"] == "ms"
    return result["real_time"]


@torch.no_grad()
def torchdeq_solver(name: str) -> float:
    """Milliseconds of one solve by torchdeq: the median of three after one to warm up."""
    torch.manual_seed(0)
    a = torch.rand(1, DIM) * 1.9 - 0.95
    x = torch.randn(BATCH, DIM)
    start = torch.zeros(BATCH, DIM)
    solve = {"anderson": anderson_solver, "broyden": broyden_solver}[name]
    calls = 0

    def f(z):
        nonlocal calls
        calls += 1
        return torch.addcmul(x, a, z)

    times = []
    for _ in range(4):
        calls = 0
        begin = time.perf_counter()
        solve(f, start, max_iter=20, tol=0.0, stop_mode="rel")
        times.append(1e3 * (time.perf_counter() - begin))
        assert calls == {"anderson": 20, "broyden": 21}[name], calls
    return statistics.median(times[1:])


def ours_training() -> float:
    """Seconds that libdeq takes for 50 epochs, by its own metrics."""
    config = BUILD.parent.parent.parent / "configs/paper/synthetic.toml"
    settings = [f"jacobian.gamma={GAMMA}", "solver.forward.name=anderson",
                "solver.adjoint.name=anderson", "train.eval_every=50"]
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        overrides = [word for setting in settings for word in ("--set", setting)]
        subprocess.run([BUILD / "deq", "train", config, *overrides, "--out", run, "--json"],
                       check=True, capture_output=True)
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return max(line["seconds"] for line in lines if line["split"] == "train")


class Toy(torch.nn.Module):
    def __init__(self, hidden: int = 50):
        super().__init__()
        sides = (1 - 2 * (torch.arange(hidden) % 2))[:, None]
        kinks = 4 * (torch.arange(hidden) + torch.rand(hidden)) / hidden - 2
        self.u = torch.nn.Parameter(sides * (3 + 3 * torch.rand(hidden, 1)))
        self.b = torch.nn.Parameter(-self.u.detach()[:, 0] * kinks)
        self.w2 = torch.nn.Parameter(0.1 * torch.rand(hidden, 1) - 0.05)
        self.w1 = torch.nn.Parameter(self.w2.detach().sign() * 0.8 * torch.rand(hidden, 1))

    def inject(self, x):
        return torch.addmm(self.b, x, self.u.t())

    def forward(self, z, injection):
        return torch.addmm(injection, z, self.w1.t()).relu() @ self.w2


def torchdeq_training() -> tuple[float, float]:
    """Seconds for 50 epochs with torchdeq, and the training error of the last epoch."""
    torch.manual_seed(0)
    x = 4 * torch.rand(4096, 1) - 2
    y = 1.5 * x**3 + x**2 - 5 * x + 2 * x.sin() - 3 + 0.05 * torch.randn(4096, 1)
    model = Toy()
    deq = get_deq(f_solver="anderson", b_solver="anderson", f_max_iter=6, b_max_iter=6, f_tol=1e-3,
                  b_tol=1e-4, f_stop_mode="rel", b_stop_mode="rel", ift=True)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 50 * 64)
    begin = time.perf_counter()
    for _ in range(50):
        total = 0.0
        for batch in torch.randperm(4096).split(64):
            injection = model.inject(x[batch])
            z = deq(lambda state: model(state, injection), torch.zeros(64, 1))[0][-1]
            task = torch.nn.functional.mse_loss(z, y[batch])
            loss = task
            if torch.rand(()) < PROBABILITY:
                point = z.detach().requires_grad_()
                loss = loss + GAMMA * jac_reg(model(point, injection), point)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += task.item()
    return time.perf_counter() - begin, total / 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": []}

    def compare(name, unit, ours, theirs, repeats):
        pairs = [(ours(), theirs()) for _ in range(repeats)]
        mine, peer = (statistics.median(column) for column in zip(*pairs))
        results["rows"].append({"name": name, "unit": unit, "libdeq": mine, "torchdeq": peer,
                                "ratio": peer / mine, "pairs": pairs})
        print(f"{name:34} libdeq {mine:9.2f} {unit:3} torchdeq {peer:9.2f} {unit:3} "
              f"ratio {peer / mine:6.2f}", flush=True)

    for name in ("anderson", "broyden"):
        compare(f"{name}, B=64, D=61440, 20 steps", "ms", lambda n=name: ours_solver(n),
                lambda n=name: torchdeq_solver(n), arguments.repeats)

    def peer_training():
        seconds, error = torchdeq_training()
        assert math.isfinite(error) and error < 0.5, f"torchdeq's training did not fit: {error}"
        return seconds

    compare("synthetic training, 50 epochs", "s", ours_training, peer_training,
            max(1, arguments.repeats // 2))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
