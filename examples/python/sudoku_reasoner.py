"""A small Equilibrium Reasoner learns Sudoku of 4 × 4 cells, with a training loop of one's own.

    python3 examples/python/sudoku_reasoner.py --steps 1200

Every step is a segment: three recursions, of which the last is backpropagated through. The state goes on from segment to
segment, without its graph. Afterwards a solver takes as many recursions as it needs, from several random starts."""

import argparse
import csv
import pathlib
import subprocess
import sys
import tempfile

import torch

import deq

SIDE = 4
SIGNS = "." + "".join(map(str, range(1, SIDE + 1)))


def make_puzzles(folder, seed):
    command = [sys.executable, "-m", "deq", "data", "make", "sudoku", folder, "--boxes", "2x2", "--seed", str(seed)]
    subprocess.run(command, check=True, capture_output=True)
    return [read_puzzles(folder / name) for name in ("train.csv", "test.csv")]


def read_puzzles(file):
    """Questions and answers, each [puzzles, cells]."""
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [torch.tensor([[SIGNS.index(sign) for sign in row[kind]] for row in rows]) for kind in ("question", "answer")]


def with_other_digits(question, answer):
    """Digits renamed, in every puzzle otherwise."""
    names = torch.rand(len(question), SIDE).argsort(1) + 1
    names = torch.cat([torch.zeros(len(question), 1, dtype=torch.int64), names], 1)
    return names.gather(1, question), names.gather(1, answer)


def train(model, questions, answers, args):
    optimiser = torch.optim.AdamW(model.parameters(), args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(args.steps):
        if step % args.segments == 0:  # new puzzles
            chosen = torch.randint(len(questions), (args.batch,))
            question, answer = with_other_digits(questions[chosen], answers[chosen])
            start = model.start_of(question)
        output = model(question, start)
        right = (output.logits.argmax(-1) == answer).all(1).to(output.settled)
        loss = deq.models.stablemax_cross_entropy(output.logits, answer).mean()
        loss = loss + 0.5 * torch.nn.functional.binary_cross_entropy_with_logits(output.settled, right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        start = output.carried
        if step % 100 == 99 or step == args.steps - 1:
            print(f"step {step + 1}: loss {loss:.3f}, {100 * right.mean():.0f}% of this batch right")


def exact(model, questions, answers, breadth):
    found = model.solve(questions, breadth=breadth)
    return 100 * (found.contents == answers).all(1).float().mean().item(), found.residual.mean().item()


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--segments", type=int, default=8, help="steps with the same puzzles")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        training, test = make_puzzles(pathlib.Path(folder) / "sudoku", args.seed)
    model = deq.models.Reasoner(
        vocabulary=len(SIGNS), tokens=SIDE * SIDE, width=64, inner_multiple=32, inner_steps=3,
        damping=0.95, noise=0.01, start="random",
        forward=deq.Anderson(max_evals=24, rtol=1e-3), gradient=deq.Unrolled(steps=3, backpropagated=1),
    )
    train(model.train(), *training, args)
    results = {}
    for breadth in (1, 4):
        results[breadth], residual = exact(model, *test, breadth)
        print(f"from {breadth} starts: {results[breadth]:.1f}% of {len(test[0])} unseen puzzles right, residual {residual:.1e}")
    return results


if __name__ == "__main__":
    main()
