"""A small script of torchdeq's, as it runs here with one line changed, and as the table of docs/python.md writes it.

    python3 examples/python/from_torchdeq.py --steps 40

It teaches z* = tanh(W z* + U x) to follow a sine, twice from the same start: both prints are the same."""

import argparse

import torch

import deq


class Cell(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = torch.nn.Linear(width, width, bias=False)
        self.u = torch.nn.Linear(width, width)

    def forward(self, z, x):
        return torch.tanh(0.5 * self.w(z) + self.u(x))


class AsBefore(torch.nn.Module):
    """What a user of torchdeq has; `from torchdeq import get_deq` was above."""

    def __init__(self, args):
        super().__init__()
        self.cell = Cell(args.width)
        self.deq = deq.get_deq(args)

    def forward(self, x):
        z_out, info = self.deq(lambda z: self.cell(z, x), torch.zeros_like(x))
        return z_out[-1], info["nstep"].mean().item()


class Ported(torch.nn.Module):
    """The same by the table."""

    def __init__(self, args):
        super().__init__()
        self.layer = deq.Equilibrium(
            Cell(args.width),
            forward=deq.Anderson(max_evals=args.f_max_iter, rtol=args.f_tol),
            gradient=deq.Implicit(solver=deq.Broyden(max_evals=args.b_max_iter, rtol=args.b_tol)),
        )

    def forward(self, x):
        eq = self.layer(x)
        return eq.z, sum(sample.evaluations for sample in eq.report.samples) / len(x)


def train(model, args):
    generator = torch.Generator().manual_seed(args.seed)
    x = torch.randn(64, args.width, generator=generator)
    y = 0.5 * torch.sin(2 * x)
    optimiser = torch.optim.Adam(model.parameters(), args.lr)
    losses = []
    for step in range(args.steps):
        z, evaluations = model(x)
        loss = torch.nn.functional.mse_loss(z, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"{type(model).__name__}: {losses[0]:.4f} to {losses[-1]:.4f}, {evaluations:.1f} evaluations")
    return losses


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # Of torchdeq's add_deq_args, what this script changes or needs; all that it defines is understood.
    parser.add_argument("--core", default="sliced")
    parser.add_argument("--ift", action="store_true", default=True)
    parser.add_argument("--grad", type=int, nargs="+", default=[1])
    parser.add_argument("--f_solver", default="anderson")
    parser.add_argument("--b_solver", default="broyden")
    parser.add_argument("--f_max_iter", type=int, default=40)
    parser.add_argument("--b_max_iter", type=int, default=40)
    parser.add_argument("--f_tol", type=float, default=1e-5)
    parser.add_argument("--b_tol", type=float, default=1e-5)
    parser.add_argument("--f_stop_mode", default="rel")
    parser.add_argument("--b_stop_mode", default="rel")
    # The script's own.
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def main(words=None):
    args = arguments(words)
    losses = []
    for kind in (AsBefore, Ported):
        torch.manual_seed(args.seed)
        losses.append(train(kind(args), args))
    return losses


if __name__ == "__main__":
    main()
