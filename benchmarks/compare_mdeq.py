#!/usr/bin/env python3
"""libdeq's tiny MDEQ for CIFAR-10 against the same model written with torchdeq, in one run; see side_by_side.py.

    python3 benchmarks/compare_mdeq.py [--batch 32] [--repeats 5] [--out results.json]

Needs a Python with torch, numpy, safetensors and torchdeq, and a release build (make build). 6 evaluations for
inference, 7 + 8 in a training step.
"""

import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from peers.torchdeq_mdeq import TINY, TorchdeqMdeq
from side_by_side import Comparison, relative


class Mdeq(Comparison):
    model, inference, forward, adjoint = "mdeq", 6, 7, 8

    def add_options(self, parser):
        parser.add_argument("--batch", type=int, default=32)

    def write_problem(self, file, arguments):
        torch.manual_seed(0)
        batch = arguments.batch
        tensors = {"images": torch.randn(batch, 3, 32, 32), "labels": torch.arange(batch) % 10}
        for i, channels in enumerate(TINY.channels):
            tensors[f"z.{i}"] = torch.randn(batch, channels, 32 >> i, 32 >> i)
        for name, tensor in TorchdeqMdeq("broyden", 6, 8, False).state_dict().items():
            moved = tensor + 0.1 * torch.rand_like(tensor) if tensor.is_floating_point() else tensor
            tensors["param." + name] = moved.contiguous()
        save_file(tensors, file)

    def load_peer(self, tensors, solver, forward, adjoint, penalty):
        model = TorchdeqMdeq(solver, forward, adjoint, penalty)
        model.load_state_dict({name.removeprefix("param."): tensor for name, tensor in tensors.items()
                               if name.startswith("param.")})
        self.labels = tensors["labels"]
        return model

    def data(self, tensors, first=None):
        return [tensors["images"][:first]]

    def loss(self, model, data):
        logits, jacobian = model(*data)
        return cross_entropy(logits, self.labels[:len(logits)]) + jacobian

    def differences(self, answer, tensors):
        model = self.load_peer(tensors, "anderson", 6, 8, False).eval()
        f = model.fullstage(tensors["z.0"], tensors["z.1"], model.inject(tensors["images"]))
        logits = model.classify(*f)
        cross_entropy(logits, tensors["labels"]).backward()
        errors = {f"f.{i}": relative(answer[f"f.{i}"], part) for i, part in enumerate(f)}
        errors["logits"] = relative(answer["logits"], logits)
        gradients = [(answer["grad." + name], parameter.grad) for name, parameter in model.named_parameters()]
        errors["gradients"] = relative(*(torch.cat([g.flatten() for g in side]) for side in zip(*gradients)))
        return errors


if __name__ == "__main__":
    Mdeq().run(__doc__)
