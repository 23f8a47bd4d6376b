#!/usr/bin/env python3
"""What it costs to train together: N processes that share each batch against N that do not.

    python3 benchmarks/compare_ranks.py DIR [--ranks 4] [--samples 16] [--steps 8]

Needs a release build (make build) and a folder DIR of images of 32 x 32, DIR/train/<class>/ and
DIR/test/<class>/ of ten classes. The model is ResNet-18 (11.2M parameters). Both sides run N processes of one thread at the same time, each with the same number of samples a
step, so that they compete for the machine alike; what is left is the exchange of gradients and the waiting
for each other. Prints seconds per step (median over the steps after the first) and the share spent on that.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/deq"


def command(arguments, samples: int, out: pathlib.Path, *more: str) -> list[str]:
    settings = ["data.format=folder", f"data.path={arguments.data}", f"data.train_samples={4 * samples}",
                "data.valid_samples=1", f"train.batch_size={samples}", f"train.steps={arguments.steps}",
                "train.log_every=1", "train.loader.workers=0"]
    overrides = [word for setting in settings for word in ("--set", setting)]
    return [str(PROGRAM), "train", str(ROOT / "configs/paper/cifar10-resnet18.toml"), *overrides, "--json", "--out",
            str(out), *more]


def run_all(commands: list[list[str]]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) for words in commands]
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"a run failed with status {process.returncode}")


def seconds_per_step(run: pathlib.Path, samples: int) -> float:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    rates = [line["samples_per_s"] for line in lines if line["split"] == "train"]
    return statistics.median(samples / rate for rate in rates[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--samples", type=int, default=16, help="of a process, a step")
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        apart = [folder / f"apart-{rank}" for rank in range(arguments.ranks)]
        run_all([command(arguments, arguments.samples, run) for run in apart])
        alone = statistics.mean(seconds_per_step(run, arguments.samples) for run in apart)
        together = folder / "together"
        samples = arguments.samples * arguments.ranks
        run_all([command(arguments, samples, together, "--nproc", str(arguments.ranks))])
        shared = seconds_per_step(together, samples)
    print(f"{arguments.ranks} processes, {arguments.samples} samples each: apart {alone:.3f} s per step, together {shared:.3f} s, "
          f"outside compute {100 * (1 - alone / shared):.1f}%")


if __name__ == "__main__":
    main()
