#!/usr/bin/env python3
"""How long small language models and reasoners take on the CPU, by the package: an inference and a step (forward and backward).

    PYTHONPATH=build/release/python python3 benchmarks/models_on_cpu.py [--repeats 9]

Medians in ms. To compare two builds, run it with each of them in turn."""

import argparse
import statistics
import time

import torch

import deq
from deq import models

WORDS = {"vocabulary": 20_000, "cutoffs": [2_000, 8_000], "d_embed": 256}
WIDE = {"d_model": 256, "heads": 4, "d_inner": 1024, "dropout": 0.0, "attention_dropout": 0.0, "layers": 4}
UNTIED = {"tie_projections": [False] * 3}
SEGMENT = {"gradient": deq.Unrolled(steps=3, backpropagated=1), "damping": 0.95, "noise": 0.01}
LANGUAGE = {
    "GPT-2": lambda: models.GPT2(**WORDS, **WIDE, positions=128),
    "Transformer-XL": lambda: models.TransformerXL(**WORDS, **WIDE, d_head=64, **UNTIED),
    "relational memory": lambda: models.RelationalMemory(
        **WORDS, d_model=256, heads=4, head_size=64, mlp_layers=4, embedding_dropout=0.0, **UNTIED
    ),
    "AWD-QRNN": lambda: models.AwdQrnn(**WORDS, layers=3, d_hidden=512, **UNTIED),
}
REASONERS = {
    "reasoner, 4 × 4": (64, lambda: models.Reasoner(vocabulary=5, tokens=16, width=64, inner_multiple=32, inner_steps=3, **SEGMENT)),
    "reasoner, 9 × 9": (16, lambda: models.Reasoner(width=128, inner_multiple=64, **SEGMENT)),
    "reasoner, 10 × 10, attention": (
        16,
        lambda: models.Reasoner(tokens=100, width=128, inner_multiple=64, attention=True, heads=4, **SEGMENT),
    ),
}


def language_passes(model):
    tokens = torch.randint(20_000, (8, 65))
    return lambda: model(tokens[:, :-1]), lambda: model(tokens[:, :-1], tokens[:, 1:]).nll.mean()


def reasoner_passes(model, batch):
    tokens = torch.randint(model.options.vocabulary, (batch, model.options.tokens))
    start = model.start_of(tokens)
    return lambda: model(tokens, start), lambda: model(tokens, start).logits.square().mean()


def median_ms(work, repeats):
    times = []
    for _ in range(repeats + 2):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    torch.manual_seed(0)
    subjects = {name: (model := make(), language_passes(model)) for name, make in LANGUAGE.items()}
    subjects |= {name: (model := make(), reasoner_passes(model, batch)) for name, (batch, make) in REASONERS.items()}
    for name, (model, (infer, loss)) in subjects.items():

        def step():
            model.zero_grad()
            loss().backward()

        model.eval()
        with torch.no_grad():
            inference_ms = median_ms(infer, repeats)
        model.train()
        print(f"{name:30} inference {inference_ms:8.1f}   step {median_ms(step, repeats):8.1f}", flush=True)


if __name__ == "__main__":
    main()
