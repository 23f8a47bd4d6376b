#!/usr/bin/env python3
"""libdeq's DEQ-Transformer language model against the same written with torchdeq, in one run; see side_by_side.py.

    python3 benchmarks/compare_transformer.py [--streams 8] [--length 64] [--repeats 5] [--out results.json]

Needs a Python with torch, numpy, safetensors and torchdeq, and a release build (make build). d_model is 128,
d_inner 2048, the vocabulary WikiText-103's 267,735 words, drawn by Zipf's law; each stream comes with a memory as long
as its text. 12 evaluations for inference (the cost of every word), 12 + 12 in a training step.
"""

import torch
from safetensors.torch import save_file

from peers.torchdeq_transformer import SMALL, TorchdeqTransformer
from peers.transformer_layers import WORDS
from side_by_side import Comparison, relative

CONVOLUTIONS = ("qkv_net", "r_net", "o_net", "inject_conv")  # libdeq has their weights as published, [out, in, 1]


def is_convolution(name):
    return "weight" in name and name.split(".")[-2] in CONVOLUTIONS


class Transformer(Comparison):
    model, inference, forward, adjoint = "transformer", 12, 12, 12

    def add_options(self, parser):
        parser.add_argument("--streams", type=int, default=8)
        parser.add_argument("--length", type=int, default=64, help="words of a stream, and of its memory")

    def write_problem(self, file, arguments):
        torch.manual_seed(0)
        streams, length = arguments.streams, arguments.length
        frequencies = 1 / (torch.arange(WORDS, dtype=torch.float64) + 2.7)
        words = torch.multinomial(frequencies, streams * (length + 1), replacement=True).view(streams, length + 1)
        tensors = {"tokens": words[:, :-1].contiguous(), "targets": words[:, 1:].contiguous(),
                   "memory.z": torch.randn(streams, length, SMALL.d_model),
                   "memory.u": torch.randn(streams, length, 3 * SMALL.attended),
                   "z": torch.randn(streams, length, SMALL.d_model)}
        model = TorchdeqTransformer("broyden", 12, 12, False)
        with torch.no_grad():
            for table in model.word_emb.emb_layers:
                table.weight.mul_(0.02)
        # Parameters, each once, and buffers.
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not name.endswith("inv_freq") and tensor.dim() < 2:
                tensor = tensor + 0.02 * torch.rand_like(tensor)
            tensors["param." + name] = (tensor.unsqueeze(-1) if is_convolution(name) else tensor).detach().contiguous()
        save_file(tensors, file)

    def load_peer(self, tensors, solver, forward, adjoint, penalty):
        model = TorchdeqTransformer(solver, forward, adjoint, penalty)
        state = {name.removeprefix("param."): tensor for name, tensor in tensors.items() if name.startswith("param.")}
        state = {name: tensor.squeeze(-1) if is_convolution(name) else tensor for name, tensor in state.items()}
        tied = model.load_state_dict(state, strict=False).missing_keys
        assert all(name.startswith("crit.out_") for name in tied), tied
        return model

    def data(self, tensors, first=None):
        return [tensors[name][:first] for name in ("tokens", "targets", "memory.z", "memory.u")]

    def loss(self, model, data):
        nll, _, jacobian = model(*data)
        return nll.mean() + jacobian

    def differences(self, answer, tensors):
        model = self.load_peer(tensors, "anderson", 12, 12, False).eval()
        f = model.func(tensors["z"], *model.given(tensors["tokens"], tensors["memory.z"], tensors["memory.u"]))
        nll = model.crit(f, tensors["targets"])
        nll.mean().backward()
        gradients = {name: (answer["grad." + name].view_as(parameter), parameter.grad)
                     for name, parameter in model.named_parameters()}
        worst, (mine, peer) = max(gradients.items(), key=lambda item: relative(*item[1]))
        assert relative(mine, peer) < 1e-4, f"not the same function: the gradient of {worst} differs"
        return {"f": relative(answer["f"], f), "nll": relative(answer["nll"], nll),
                "gradients": relative(*(torch.cat([g.flatten() for g in side]) for side in zip(*gradients.values())))}


if __name__ == "__main__":
    Transformer().run(__doc__)
