#!/usr/bin/env python3
"""How the multiscale DEQ's time and memory grow, with torchdeq's beside them in the same run.

    python3 benchmarks/scaling.py measure FILE [--device cuda] [--precision bfloat16]
    python3 benchmarks/scaling.py draw FILE FIGURE

Around one model (96 images of 32×32, 32 channels in the finest scale, 8 + 8 evaluations) one thing at a time grows:
images, evaluations, the side of the images and with it the state, channels. Points are appended to FILE (JSON lines) one by one, and those
that are there are not measured again. `measure` needs a release build (make build) and a Python with torch and
torchdeq, `draw` one with matplotlib.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = {"images": 96, "evaluations": 8, "side": 32, "channels": 32}
SWEEPS = {"images": (16, 32, 64, 96, 128, 256, 512, 1024), "evaluations": (4, 8, 16, 32, 64),
          "side": (16, 32, 64, 128), "channels": (16, 32, 64, 128)}
# What the plots show, and what it means there.
PANELS = {"inference_ms": "inference, ms", "step_ms": "training step, ms", "step_mib": "memory of a step, MiB"}
LABELS = {"images": "images", "evaluations": "evaluations", "side": "side of the images", "channels": "channels"}
LONG_MS = 2000  # once measured is enough


def points():
    """Those of all sweeps, the base once."""
    unique = {}
    for what, values in SWEEPS.items():
        for value in values:
            point = {**BASE, what: value}
            unique[tuple(point.values())] = point
    return list(unique.values())


# ---- measuring ----------------------------------------------------------------------------------------------------


def libdeq(point, arguments):
    count = str(point["evaluations"])
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        subprocess.run([arguments.deq, "bench", "mdeq", "--device", arguments.device, "--precision", arguments.precision,
                        "--batch", str(point["images"]), "--size", str(point["side"]), "--channels",
                        str(point["channels"]), "--inference", count, "--forward", count, "--adjoint", count,
                        "--repeats", str(arguments.repeats), "--json", answer], check=True, stdout=subprocess.DEVNULL)
        numbers = json.loads(answer.read_text())
    return {key: numbers[key] for key in PANELS}


class Torchdeq:
    """Inference and training steps of one point. Sums are float32, products TF32 on a GPU."""

    def __init__(self, point, arguments):
        import torch
        from peers.torchdeq_mdeq import LARGE, Sizes, TorchdeqMdeq

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.torch, self.repeats, self.on_gpu = torch, arguments.repeats, arguments.device.startswith("cuda")
        channels = tuple(point["channels"] << i for i in range(len(LARGE.channels)))
        self.model = TorchdeqMdeq("broyden", point["evaluations"], point["evaluations"], False,
                                  Sizes(channels, LARGE.head, LARGE.features)).to(arguments.device)
        self.images = torch.randn(point["images"], 3, point["side"], point["side"], device=arguments.device)
        self.labels = torch.randint(10, (point["images"],), device=arguments.device)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=0.0, fused=True)

    def infer(self):
        with self.torch.no_grad():
            self.model(self.images)

    def step(self):
        self.optimiser.zero_grad()
        self.torch.nn.functional.cross_entropy(self.model(self.images)[0], self.labels).backward()
        self.optimiser.step()

    def wait(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def median_ms(self, work):
        work()
        times = []
        while len(times) < self.repeats and sum(times) < LONG_MS:
            self.wait()
            begin = time.perf_counter()
            work()
            self.wait()
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times)

    def measure(self):
        self.model.eval()
        numbers = {"inference_ms": self.median_ms(self.infer)}
        self.model.train()
        numbers["step_ms"] = self.median_ms(self.step)
        if self.on_gpu:
            self.torch.cuda.reset_peak_memory_stats()
            self.step()
            numbers["step_mib"] = self.torch.cuda.max_memory_allocated() / 2**20
            self.torch.cuda.empty_cache()
        return numbers


def known(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(arguments):
    where = {"device": arguments.device, "precision": arguments.precision}
    done = {tuple(line[key] for key in ("program", *where, *BASE)) for line in known(arguments.file)}
    programs = {"libdeq": libdeq, "torchdeq": lambda point, given: Torchdeq(point, given).measure()}
    for point in points():
        for program, numbers_of in programs.items():
            if (program, *where.values(), *point.values()) in done:
                continue
            line = {"program": program, **where, **point, **numbers_of(point, arguments)}
            with arguments.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


# ---- drawing ------------------------------------------------------------------------------------------------------


def swept(lines, program, what):
    """The points of one sweep, in order."""
    others = {key: value for key, value in BASE.items() if key != what}
    chosen = [line for line in lines
              if line["program"] == program and all(line[key] == value for key, value in others.items())]
    return sorted(chosen, key=lambda line: line[what])


def draw(arguments):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # The same file for the same numbers, whenever it is drawn.
    plt.rcParams.update({"svg.hashsalt": "libdeq", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                         "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
    lines = known(arguments.file)
    figure, rows = plt.subplots(len(PANELS), len(SWEEPS), figsize=(13, 8), layout="constrained", sharex="col",
                                sharey="row")
    for (key, title), row in zip(PANELS.items(), rows):
        for what, axes in zip(SWEEPS, row):
            for program in ("libdeq", "torchdeq"):
                sweep = [line for line in swept(lines, program, what) if key in line]
                axes.plot([line[what] for line in sweep], [line[key] for line in sweep], marker="o", markersize=3,
                          linewidth=1.2, label=program)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(SWEEPS[what], [str(value) for value in SWEEPS[what]])
            axes.minorticks_off()
        row[0].set_ylabel(title)
    for what, axes in zip(SWEEPS, rows[-1]):
        axes.set_xlabel(LABELS[what])
    figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(arguments.figure, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("file", type=pathlib.Path)
    measuring.add_argument("--deq", type=pathlib.Path, default=ROOT / "build/release/bin/deq")
    measuring.add_argument("--device", default="cpu")
    measuring.add_argument("--precision", default="float32", help="libdeq's")
    measuring.add_argument("--repeats", type=int, default=3)
    measuring.set_defaults(run=measure)
    drawing = commands.add_parser("draw")
    drawing.add_argument("file", type=pathlib.Path, help="what was measured on one device in one precision")
    drawing.add_argument("figure", type=pathlib.Path)
    drawing.set_defaults(run=draw)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
