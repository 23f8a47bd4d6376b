#!/usr/bin/env python3
"""The figures of docs/early-runs.md, drawn from the metrics beside it. Needs matplotlib.

    python3 scripts/draw_results.py
"""

import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs/results"
# The same file for the same numbers, whenever it is drawn.
plt.rcParams.update({"svg.hashsalt": "libdeq", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                     "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})

CIFAR = {"cifar10-long-mdeq-nfe-7": "MDEQ, 7 + 8", "cifar10-long-mdeq-jr": "MDEQ + JR, 7 + 8",
         "cifar10-long-resnet18": "ResNet-18"}
BOOKS = {"books-transformer-xl": "Transformer-XL", "books-post-ln": "post-LN, 30 + 30",
         "books-post-ln-few": "post-LN, 12 + 12", "books-post-ln-jr": "post-LN + JR, 12 + 12",
         "books-post-ln-jr-gamma-0.3": "post-LN + JR, γ = 0.3, 12 + 12", "books-pre-ln": "pre-LN, 30 + 30",
         "books-pre-ln-nfe-14": "pre-LN, 14 + 14", "books-pre-ln-jr": "pre-LN + JR, 14 + 14"}


def lines(run, split):
    everything = map(json.loads, (RESULTS / f"{run}.jsonl").read_text().splitlines())
    return [line for line in everything if line["split"] == split]


def curve(axes, run, style, split, x, y):
    points = [line for line in lines(run, split) if y in line]
    axes.plot([p[x] for p in points], [p[y] for p in points], marker="o" if split == "valid" else None,
              markersize=3, linewidth=1.2, **style)


def draw(name, runs, panels):
    """Each panel: title, split, x, y, whether logarithmic."""
    figure, all_axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.2), layout="constrained")
    for axes, (title, split, x, y, logarithmic) in zip(all_axes, panels):
        for number, (run, label) in enumerate(runs.items()):
            curve(axes, run, {"label": label, "color": f"C{number}"}, split, x, y)
        axes.set(title=title, xlabel={"step": "step", "seconds": "seconds"}[x])
        if logarithmic:
            axes.set_yscale("log")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})


def main():
    draw("cifar10", CIFAR, [("accuracy, test pictures", "valid", "step", "accuracy", False),
                            ("residual of the training's solves", "train", "step", "residual", True),
                            ("residual of the adjoint solves", "train", "step", "adjoint_residual", True),
                            ("‖J‖, Frobenius", "valid", "step", "jacobian_norm", False)])
    draw("books", BOOKS, [("perplexity", "valid", "seconds", "perplexity", False),
                          ("residual of the training's solves", "train", "step", "residual", True),
                          ("spectral radius of J", "valid", "step", "rho", True)])


if __name__ == "__main__":
    main()
