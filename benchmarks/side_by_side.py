"""A model of libdeq and the same model written with torchdeq on one CPU, in rounds that alternate.

Both sides get the same weights and data, float32, the same threads, and the same numbers of evaluations with a tolerance
that is never met; dropout is off. First it is asserted that both are the same function. Then each round runs in a
process of its own, and medians are compared:

1. inference;
2. a training step (forward, loss, backward), with and without the Jacobian term;
3. peak memory of a training step for 4, 8, 16 and 32 evaluations forward, beyond what was there before.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod

import torch
from safetensors.torch import load_file

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq_side_by_side"


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def memory_mib(what):
    """VmRSS or VmHWM, the resident memory now or at its peak."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {what} in /proc/self/status")


class Comparison(ABC):
    model: str  # for libdeq's program
    inference: int  # evaluations
    forward: int
    adjoint: int

    @abstractmethod
    def add_options(self, parser): ...

    @abstractmethod
    def write_problem(self, file, arguments):
        """Weights as param.<name>, data, and a state for the check."""

    @abstractmethod
    def load_peer(self, tensors, solver, forward, adjoint, penalty): ...

    @abstractmethod
    def data(self, tensors, first=None):
        """What a model is called with, of all samples or of the first few."""

    @abstractmethod
    def loss(self, model, data): ...

    @abstractmethod
    def differences(self, answer, tensors):
        """Relative ones of all that one step from the given state leads to, libdeq's in `answer`, by name."""

    def words(self, mode, solver, forward, penalty=0, repeats=3):
        return [mode, solver, str(forward), str(self.adjoint), str(penalty), str(repeats)]

    def ours(self, arguments, file, words):
        """What libdeq's program measures: milliseconds of each repeat, MiB."""
        output = subprocess.run([arguments.binary, self.model, file, *words], check=True, capture_output=True, text=True).stdout
        return json.loads(output) if output else None

    def theirs(self, file, words):
        """The same by the script itself, in a process of its own."""
        command = [sys.executable, sys.argv[0], "--peer", file, *words]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def run_peer(self, file, mode, solver, forward, adjoint, penalty, repeats):
        """The peer's side of one round, printed as JSON."""
        tensors = load_file(file)
        model = self.load_peer(tensors, solver, int(forward), int(adjoint), penalty != "0").train(mode == "train")

        def step(data):
            loss = self.loss(model, data)
            model.zero_grad()
            loss.backward()

        # What a first step loads and keeps, whatever the batch, is not a step's memory.
        step(self.data(tensors, first=2))
        data, before, times = self.data(tensors), memory_mib("VmRSS"), []
        for _ in range(2 + int(repeats)):
            begin = time.perf_counter()
            if mode == "train":
                step(data)
            else:
                with torch.no_grad():
                    model(*data)
            times.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps({"ms": times[2:], "mib": memory_mib("VmHWM") - before, "threads": torch.get_num_threads()}))

    def assert_same_function(self, arguments, file):
        self.ours(arguments, file, self.words("check", "anderson", self.inference))
        errors = self.differences(load_file(file + ".out"), load_file(file))
        print("relative differences:", ", ".join(f"{k} {v:.1e}" for k, v in errors.items()), flush=True)
        for name, error in errors.items():
            assert error < 1e-5, f"not the same function: {name} differs by {error}"

    def compare(self, arguments, file, name, words):
        rounds = [(self.ours(arguments, file, words), self.theirs(file, words)) for _ in range(arguments.repeats)]
        assert len({side["threads"] for pair in rounds for side in pair}) == 1, "unequal threads"
        mine, peer = (statistics.median(t for pair in rounds for t in pair[side]["ms"]) for side in (0, 1))
        print(f"{name:38} libdeq {mine:8.1f} ms   torchdeq {peer:8.1f} ms   ratio {peer / mine:5.2f}", flush=True)
        return {"name": name, "libdeq": mine, "torchdeq": peer, "ratio": peer / mine, "rounds": rounds}

    def compare_memory(self, arguments, file, solver, forward):
        words = self.words("train", solver, forward, repeats=1)
        mine, peer = self.ours(arguments, file, words)["mib"], self.theirs(file, words)["mib"]
        print(f"{solver}, {forward:2} evaluations: libdeq {mine:7.0f} MiB   torchdeq {peer:7.0f} MiB", flush=True)
        return {"solver": solver, "forward": forward, "libdeq": mine, "torchdeq": peer}

    def run(self, description):
        if sys.argv[1:2] == ["--peer"]:
            return self.run_peer(*sys.argv[2:])
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
        self.add_options(parser)
        parser.add_argument("--repeats", type=int, default=5, help="rounds of each comparison")
        parser.add_argument("--solvers", nargs="+", default=["anderson", "broyden"])
        parser.add_argument("--no-memory", action="store_true")
        parser.add_argument("--binary", type=pathlib.Path, default=BINARY)
        parser.add_argument("--out", type=pathlib.Path)
        arguments = parser.parse_args()
        capability = torch.backends.cpu.get_cpu_capability()
        print(f"torch {torch.__version__}, {capability}, {torch.get_num_threads()} threads", flush=True)
        results = {"torch": torch.__version__, "cpu_capability": capability, "rows": [], "memory": []}
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "problem.safetensors")
            self.write_problem(file, arguments)
            self.assert_same_function(arguments, file)
            for solver in arguments.solvers:
                for name, words in (
                        ("inference", self.words("infer", solver, self.inference, repeats=5)),
                        ("training step", self.words("train", solver, self.forward)),
                        ("training step with penalty", self.words("train", solver, self.forward, penalty=1))):
                    results["rows"].append(self.compare(arguments, file, f"{name}, {solver}", words))
            for solver in arguments.solvers if not arguments.no_memory else []:
                for forward in (4, 8, 16, 32):
                    results["memory"].append(self.compare_memory(arguments, file, solver, forward))
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1))
