#!/usr/bin/env python3
"""The MDEQ's f in plain PyTorch, solved by the Python package and by torchdeq, in one run on one GPU.

    PYTHONPATH=build/release/python python3 benchmarks/compare_python_mdeq.py [--device cuda] [--images 96] [--out FILE]

Needs a Python with torch, torchdeq and deq. f is that of the published model (11.1M parameters with stem and head,
which are left out here), without weight norm; the injection is given. Both sides solve with Broyden and a tolerance
that is never met: 6 evaluations for inference; 7 and 8 products in a training step, of which forward and backward are
timed. deq is measured twice: f evaluated by Python, and recorded once and replayed (`replay=True`, which also gives f
libdeq's group norm and channels-last images).
"""

import argparse
import json
import pathlib
import statistics
import time

import torch
from peers.torchdeq_mdeq import LARGE, TINY, Layer
from torchdeq import get_deq

import deq

WARM_UPS = 4


class Subject:
    """One f and one injection for all."""

    def __init__(self, arguments):
        torch.manual_seed(0)
        sizes, side = LARGE if arguments.device == "cuda" else TINY, 32
        self.device = arguments.device
        self.f = F(sizes.channels, self.device, arguments.precision == "bfloat16")
        self.injection = torch.randn(arguments.images, sizes.channels[0], side, side, device=self.device)
        self.start = [
            self.injection.new_zeros(arguments.images, c, side >> i, side >> i) for i, c in enumerate(sizes.channels)
        ]

    def ours(self, evaluations, products, replay):
        options = dict(rtol=0.0, stagnation_window=0)
        return deq.Equilibrium(
            self.f,
            forward=deq.Broyden(max_evals=evaluations, **options),
            gradient=deq.Implicit(solver=deq.Broyden(max_evals=products, **options)),
            one_more_step=False,
            replay=replay,
        )

    def theirs(self, evaluations, products):
        # torchdeq's Broyden evaluates the start before it counts.
        return get_deq(
            f_solver="broyden", b_solver="broyden", f_max_iter=evaluations - 1, b_max_iter=products - 1, f_tol=0.0,
            b_tol=0.0, f_stop_mode="rel", b_stop_mode="rel", ift=True, hook_ift=True,
        )

    def works(self):
        """Pairs of inference and step: evaluated, replayed, torchdeq."""
        for replay in (False, True):
            inference, training = self.ours(6, 2, replay).eval(), self.ours(7, 8, replay)
            yield (
                lambda layer=inference: layer(self.injection, z0=tuple(self.start)).state,
                lambda layer=training: layer(self.injection, z0=tuple(self.start)).state,
            )
        inference, training = self.theirs(6, 2).eval(), self.theirs(7, 8)
        f = lambda *z: self.f(z, self.injection)  # noqa: E731
        yield (lambda: inference(f, self.start)[0][-1], lambda: training(f, self.start)[0][-1])

    def infer(self, solve):
        with torch.no_grad():
            return solve()

    def step(self, solve):
        self.f.zero_grad()
        sum(part.square().mean() for part in solve()).backward()

    def milliseconds(self, work):
        self.wait()
        begin = time.perf_counter()
        work()
        self.wait()
        return 1e3 * (time.perf_counter() - begin)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


class F(torch.nn.Module):
    """f(z, x); its products are taken in bfloat16 where that is asked for, the state stays float32."""

    def __init__(self, channels, device, bfloat16):
        super().__init__()
        self.layer = Layer(channels).to(device)
        self.device, self.bfloat16 = device, bfloat16

    def forward(self, z, x):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16):
            return tuple(part.float() for part in self.layer(*z, x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--precision", choices=["tf32", "bfloat16"], default="bfloat16")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True

    subject = Subject(arguments)
    names = ["deq, evaluated", "deq, replayed", "torchdeq"]
    works = []
    for inference, training in subject.works():
        works.append(lambda solve=inference: subject.infer(solve))
        works.append(lambda solve=training: subject.step(solve))
    for work in works:
        for _ in range(WARM_UPS):
            work()
    # The same function, solved equally far: what is timed afterwards is the same work.
    states = [torch.cat([part.flatten() for part in works[2 * i]()]) for i in range(len(names))]
    apart = [float((state - states[-1]).norm() / states[-1].norm()) for state in states[:-1]]
    rounds = [[subject.milliseconds(work) for work in works] for _ in range(arguments.repeats)]
    medians = [statistics.median(column) for column in zip(*rounds)]

    print("z* of deq, evaluated and replayed, beside torchdeq's: " + ", ".join(f"{x:.1e}" for x in apart))
    peer = medians[-2:]
    rows = []
    print(f"torch {torch.__version__}, {arguments.precision}, {arguments.images} images; milliseconds, torchdeq's over ours")
    for i, name in enumerate(names):
        inference, step = medians[2 * i : 2 * i + 2]
        rows.append(dict(name=name, inference=inference, step=step))
        print(f"{name:16} inference {inference:8.2f} {peer[0] / inference:6.2f}   step {step:8.2f} {peer[1] / step:6.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
