#!/usr/bin/env python3
"""What learned starts are worth where a solve may take a few evaluations only, on a small multiscale DEQ.

    OMP_NUM_THREADS=1 python3 benchmarks/learned_starts.py build/release/bin/deq DIR [--steps 300] [--seeds 1 2 3]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. One line of JSON for each training: the mean relative
residual and the accuracy on test pictures when the solver stops after so many evaluations.
"""

import json

import small_images

SETTINGS = {
    "plain": {},
    "skip": {"model.predicted_start": "true", "train.start_penalty": 1},
    "skip, weight 0.1": {"model.predicted_start": "true", "train.start_penalty": 0.1},
    "skip-reg": {"train.step_penalty": 1},
    "skip-reg, weight 0.1": {"train.step_penalty": 0.1},
    "step penalty": {"train.step_penalty": 1, "train.step_evals": 4},
    "skip and step penalty": {
        "model.predicted_start": "true",
        "train.start_penalty": 1,
        "train.step_penalty": 1,
        "train.step_evals": 4,
    },
}
BUDGETS = (1, 2, 3, 4, 6, 8, 30)


def main():
    arguments = small_images.parser_of(__doc__.splitlines()[0], steps=300).parse_args()
    with small_images.small_model(arguments) as small:
        for seed in arguments.seeds:
            for name, setting in SETTINGS.items():
                run = small.run(name, seed)
                small.train(run, {"seed": seed, "train.steps": arguments.steps, **setting})
                row = small_images.by_budget(small.evaluated(run, BUDGETS))
                print(json.dumps({"setting": name, "seed": seed, **row}), flush=True)


if __name__ == "__main__":
    main()
