#!/usr/bin/env python3
"""libdeq's explicit networks beside the same in plain PyTorch, in turn, in one run on the same machine.

    python3 benchmarks/compare_explicit.py NAME... [--device cuda] [--precision bfloat16] [--compile] [--out results.json]

Needs a Python with torch, and a release build (make build). A training step is zero_grad, forward, loss, backward and
Adam; nothing is dropped out on either side. Sizes and shapes are those of the configuration that `deq bench explicit`
names: images of 32×32, and language models of the books' size, with a memory of the words before. Each side is measured
in a process of its own, in rounds that alternate; medians over the rounds are shown, and how many times libdeq's the
others are. On a CPU memory is the peak of the whole process, on a GPU what was allocated.
"""

import argparse
import importlib
import inspect
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

import torch
from torch.nn.functional import cross_entropy

from peers import explicit_networks

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEQ = ROOT / "build/release/bin/deq"
IMAGES = {"resnet18": explicit_networks.resnet18, "resnet101": explicit_networks.resnet101,
          "densenet121": explicit_networks.densenet121, "inception-v2": explicit_networks.inception_v2}
LANGUAGE = ("transformer-xl", "awd-qrnn", "relational-memory", "gpt2")  # peers/<name>.py, configs/books/<name>.toml
CUTOFFS = [4000, 8100, 40000]  # of the books' 53,944 words, on both sides
NOT_THE_PEERS = {"relational-memory": ("memory",), "gpt2": ("d_embed",)}  # sizes of peers that take any
WARM_UPS = 4
KEYS = ("inference_ms", "inference_mib", "step_ms", "step_mib")


def model_table(name):
    """[model] of a language model's own file, without dropout and with CUTOFFS."""
    with open(ROOT / f"configs/books/{name}.toml", "rb") as file:
        table = tomllib.load(file)["model"]
    table = {key: 0.0 if "dropout" in key else value for key, value in table.items() if key != "name"}
    return {**table, "cutoffs": CUTOFFS}


def libdeq(name, arguments):
    settings = []
    if name in LANGUAGE:
        changed = {key: value for key, value in model_table(name).items() if key == "cutoffs" or "dropout" in key}
        settings = [f"--set=model.{key}={json.dumps(value)}" for key, value in changed.items()]
    if arguments.batch:
        settings += ["--batch", str(arguments.batch)]
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        subprocess.run([arguments.deq, "bench", "explicit", name, "--device", arguments.device, "--precision",
                        arguments.precision, "--repeats", str(arguments.repeats), *settings, "--json", answer],
                       check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        return json.loads(answer.read_text())


# ---- the peer, in a process of its own ----------------------------------------------------------------------------


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(device, repeats, work):
    for _ in range(WARM_UPS):
        work()
    times = []
    for _ in range(repeats):
        synchronize(device)
        begin = time.perf_counter()
        work()
        synchronize(device)
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def peak_mib(device, work):
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / 2**20
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    work()
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def random_words(shape, words, device):
    """As a language's: every order of magnitude of ranks is as frequent as the next."""
    return ((words ** torch.rand(*shape, dtype=torch.float64, device=device)).long() - 1).clamp(0, words - 1)


def language_network(name, shapes):
    """The peer with the configuration's sizes, as far as it has them, and without dropout."""
    make = importlib.import_module("peers." + name.replace("-", "_")).network
    known = inspect.signature(make).parameters
    sizes = {**model_table(name), "memory": shapes["memory"]}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        sizes = {key: value for key, value in sizes.items() if key not in NOT_THE_PEERS[name]}
    else:
        sizes = {key: value for key, value in sizes.items() if key in known}
        sizes.update({key: 0.0 for key in known if "dropout" in key})
    return make(shapes["words"], **sizes)


def peer(name, shapes, device, precision, repeats, compiled):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision in ("tf32", "bfloat16")
    kind = torch.float64 if precision == "float64" else torch.float32
    torch.manual_seed(0)
    batch = shapes["batch_size"]
    if name in IMAGES:
        model = IMAGES[name](shapes["classes"]).to(device, kind)
        images = torch.randn(batch, 3, shapes["image_size"], shapes["image_size"], device=device, dtype=kind)
        labels = torch.randint(shapes["classes"], (batch,), device=device)

        def loss_of(model):
            return cross_entropy(model(images).to(kind), labels)
    else:
        model = language_network(name, shapes).to(device, kind)
        tokens, targets = (random_words((batch, shapes["segment"]), shapes["words"], device) for _ in range(2))
        state = None
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            for _ in range(-(-max(shapes["memory"], 1) // shapes["segment"])):
                _, state = model.eval()(tokens, targets, state)

        def loss_of(model):
            return model(tokens, targets, state)[0]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0, fused=True)
    if compiled:
        if name in IMAGES:
            model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        model = torch.compile(model, mode="reduce-overhead" if name in IMAGES else "default")

    def forward():
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            return loss_of(model)

    def infer():
        with torch.no_grad():
            forward()

    def step():
        optimiser.zero_grad()
        forward().backward()
        optimiser.step()

    result = {"parameters": parameters}
    model.eval()
    result["inference_ms"], result["inference_mib"] = median_ms(device, repeats, infer), peak_mib(device, infer)
    model.train()
    result["step_ms"], result["step_mib"] = median_ms(device, repeats, step), peak_mib(device, step)
    return result


def in_a_process(name, shapes, arguments, compiled):
    task = [name, shapes, arguments.device, arguments.precision, arguments.repeats, compiled]
    result = subprocess.run([sys.executable, __file__, "--peer", json.dumps(task)], check=True, stdout=subprocess.PIPE,
                            text=True)
    return json.loads(result.stdout.splitlines()[-1])


# ---- the comparison ------------------------------------------------------------------------------------------------


def medians(rounds):
    return {key: statistics.median(result[key] for result in rounds) for key in (*KEYS, "parameters")}


def compare(name, arguments):
    sides = {"libdeq": [], "PyTorch": []}
    if arguments.compile:
        sides["PyTorch, compiled"] = []
    for _ in range(arguments.rounds):
        sides["libdeq"].append(libdeq(name, arguments))
        shapes = sides["libdeq"][0]
        sides["PyTorch"].append(in_a_process(name, shapes, arguments, False))
        if arguments.compile:
            sides["PyTorch, compiled"].append(in_a_process(name, shapes, arguments, True))
    rows = {side: medians(rounds) for side, rounds in sides.items()}
    for side, row in rows.items():
        cells = "".join(f"{row[key]:15.2f}{row[key] / rows['libdeq'][key]:7.2f}" for key in KEYS)
        print(f"{name + ', ' + side:34}{row['parameters'] / 1e6:7.2f}M{cells}", flush=True)
    return {"shapes": sides["libdeq"][0]["subject"], **rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*IMAGES, *LANGUAGE)))
    parser.add_argument("--deq", type=pathlib.Path, default=DEQ)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("float32", "tf32", "bfloat16", "float64"), default="float32")
    parser.add_argument("--batch", type=int, help="samples; else as many as the configuration trains on at once")
    parser.add_argument("--repeats", type=int, default=10, help="calls in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="also torch.compile'd, which takes a minute each time")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(peer(*json.loads(arguments.peer))))
        return
    unknown = [name for name in arguments.names if name not in (*IMAGES, *LANGUAGE)]
    if unknown or not arguments.names:
        parser.error(f"NAME must be of {', '.join((*IMAGES, *LANGUAGE))}" + (f", not {unknown[0]}" if unknown else ""))
    print(f"{'':34}{'size':>8}" + "".join(f"{key.replace('_', ', '):>15}  ratio" for key in KEYS))
    results = {name: compare(name, arguments) for name in arguments.names}
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
