#!/usr/bin/env python3
"""What other gradients, a penalty on the radius and random starts do to a small multiscale DEQ on pictures.

    OMP_NUM_THREADS=1 python3 benchmarks/methods_on_images.py build/release/bin/deq DIR [--steps 300] [--seeds 1 2 3]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. One line of JSON for each training. The mean relative
residual and the accuracy on 1,000 test pictures are those of a solve by Broyden that stops after so many evaluations,
however the model was trained; where training takes steps of its own instead of a solver, `accuracy_own` is that after
these steps. `rho` and `jacobian_norm` belong to the state after the most evaluations; `adjoint_residual` and
`train_residual` are means over the second half of the training. `step_time` is the processor's time of a training step
with its batch (median of the means over 20 steps each), over that of the first setting with the same seed.
"""

import json
import os
import pathlib
import statistics
import subprocess
import time

import small_images

BUDGETS = (2, 4, 8, 30)
COMMON = {
    "data.valid_samples": 1000,
    "solver.forward.name": "broyden",
    "solver.adjoint.name": "broyden",
    "jacobian.gamma": 0,
    "jacobian.probability": 1,
}
OWN_STEPS = ("unrolled", "reversible")
GRADIENTS = {
    "implicit, 8 products": {},
    "implicit, 3 products": {"solver.adjoint.max_evals": 3},
    "truncated, 3 products": {"gradient.name": "truncated", "gradient.terms": 3},
    "phantom, 5 steps": {"gradient.name": "phantom", "gradient.steps": 5, "gradient.tau": 0.5},
    "shine": {"gradient.name": "shine"},
    "shine, 3 products": {"gradient.name": "shine", "gradient.refined": "true", "solver.adjoint.max_evals": 3},
    "jacobian-free": {"gradient.name": "jacobian-free"},
    "unrolled, 8 steps": {"gradient.name": "unrolled", "gradient.steps": 8},
    "reversible, 4 steps": {"gradient.name": "reversible", "gradient.steps": 4},
}
PENALTIES = {
    f"{name}, {gamma}": {"jacobian.gamma": gamma, "jacobian.power_steps": steps}
    for name, steps, gammas in (
        ("norm", 0, (0.4, 1.6, 6.4)),
        ("radius, 1 step", 1, (0.05, 0.15, 0.4)),
        ("radius, 3 steps", 3, (0.05, 0.15, 0.4)),
    )
    for gamma in gammas
}
STABLE = PENALTIES["radius, 3 steps, 0.15"]  # itself the row of the implicit gradient
STABLE_GRADIENTS = {
    f"{name}, stable": {**GRADIENTS[name], **STABLE}
    for name in (
        "truncated, 3 products",
        "phantom, 5 steps",
        "shine",
        "jacobian-free",
        "unrolled, 8 steps",
        "reversible, 4 steps",
    )
}
STARTS = {f"start noise {noise}": {"train.start_noise": noise} for noise in (0.5, 1)}
TABLES = {"gradients": GRADIENTS, "penalties": PENALTIES, "starts": STARTS, "stable-gradients": STABLE_GRADIENTS}


def processor_seconds(process):
    """Of a child that runs or has ended but was not waited for: user and system."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train_lines(run):
    try:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    except (FileNotFoundError, json.JSONDecodeError):  # not there yet, or half a line
        return []
    return [line for line in lines if line["split"] == "train"]


def train(small, run, overrides):
    """The lines of its metrics, and the processor's seconds of a step."""
    marks = []  # steps done, and the process's time when their line was seen
    with subprocess.Popen(small.training(run, overrides), stdout=subprocess.DEVNULL) as process:
        while True:
            ended = process.poll() is not None
            lines = train_lines(run)
            if not ended and lines and (not marks or lines[-1]["step"] > marks[-1][0]):
                marks.append((lines[-1]["step"], processor_seconds(process)))
            if ended:
                break
            time.sleep(0.02)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return lines, statistics.median((t - s) / (n - m) for (m, s), (n, t) in zip(marks, marks[1:]))


def late(lines, key):
    values = [line[key] for line in lines[len(lines) // 2 :] if key in line]
    return small_images.rounded(statistics.fmean(values)) if values else None


def measured(small, name, seed, steps, setting):
    run = small.run(name, seed)
    overrides = {"seed": seed, "train.steps": steps, "train.eval_every_steps": steps, **COMMON, **setting}
    lines, seconds = train(small, run, overrides)
    own = setting.get("gradient.name") in OWN_STEPS
    rows = small.evaluated(run, BUDGETS, {"gradient.name": "implicit"} if own else {})
    row = small_images.by_budget(rows)
    if own:
        row["accuracy_own"] = round(small.evaluated(run, (setting["gradient.steps"],))[0]["accuracy"], 1)
    row |= {key: small_images.rounded(rows[-1][key]) for key in ("rho", "jacobian_norm")}
    row |= {f"path_distance@{line['budget']}": small_images.rounded(line["path_distance"]) for line in rows[-2:]}
    row |= {"adjoint_residual": late(lines, "adjoint_residual"), "train_residual": late(lines, "residual")}
    return {**row, "skipped_steps": lines[-1].get("skipped_steps", 0)}, seconds


def main():
    parser = small_images.parser_of(__doc__.splitlines()[0], steps=300)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    first = next(iter(GRADIENTS))
    settings = {first: GRADIENTS[first]}  # no penalty, starts at zero: what all others are compared with
    for table in arguments.tables:
        settings |= TABLES[table]
    with small_images.small_model(arguments) as small:
        for seed in arguments.seeds:
            of_first = None
            for name, setting in settings.items():
                row, seconds = measured(small, name, seed, arguments.steps, setting)
                of_first = of_first or seconds
                times = {"step_time": round(seconds / of_first, 3), "step_ms": round(1000 * seconds, 1)}
                print(json.dumps({"setting": name, "seed": seed, **row, **times}), flush=True)


if __name__ == "__main__":
    main()
