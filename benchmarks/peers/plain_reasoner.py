"""The Equilibrium Reasoner in plain PyTorch: the sizes and the arithmetic of `deq bench reasoner`."""

import math

import torch
from torch import nn
from torch.nn.functional import linear, rms_norm, silu

EPS = 1e-5
DAMPING, NOISE = 0.95, 0.01
INNER_STEPS = 6
VOCABULARY = 11


def inner_width(width, expansion=4, multiple=256):
    return math.ceil(2 * expansion * width / 3 / multiple) * multiple


class SwiGlu(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = inner_width(width)
        self.gate_up = nn.Parameter(torch.randn(2 * inner, width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(width, inner) / math.sqrt(inner))

    def forward(self, x):
        gate, up = linear(x, self.gate_up).chunk(2, -1)
        return linear(silu(gate) * up, self.down)


class Layer(nn.Module):
    def __init__(self, cells, width):
        super().__init__()
        self.tokens, self.features = SwiGlu(cells), SwiGlu(width)

    def forward(self, h):
        turned = h.transpose(1, 2)
        h = rms_norm(turned + self.tokens(turned), turned.shape[-1:], eps=EPS).transpose(1, 2)
        return rms_norm(h + self.features(h), h.shape[-1:], eps=EPS)


class PlainReasoner(nn.Module):
    """One segment: `recursions` of which the last is backpropagated through; states and activations in `type`."""

    def __init__(self, cells=81, width=512, type=torch.bfloat16):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, width) / math.sqrt(width))
        self.layers = nn.ModuleList(Layer(cells, width) for _ in range(2))
        self.head = nn.Parameter(torch.randn(VOCABULARY, width) / math.sqrt(width))
        self.settled = nn.Linear(width, 1)
        self.type = type

    def update(self, state, seen, noise):
        h = seen
        for layer in self.layers:
            h = layer(h).to(self.type)
        state = torch.lerp(state, h, DAMPING)
        return state if noise is None else state + noise

    def recursion(self, y, z, x, noises):
        injected = y + x
        for k in range(INNER_STEPS):
            z = self.update(z, z + injected, noises[k])
        return self.update(y, y + z, noises[-1]), z

    def forward(self, tokens, y, z, recursions=3):
        x = (self.embedding[tokens] * math.sqrt(self.embedding.shape[1])).to(self.type)
        noises = [NOISE * torch.randn_like(x) if self.training else None for _ in range(INNER_STEPS + 1)]
        with torch.no_grad():
            for _ in range(recursions - 1):
                y, z = self.recursion(y, z, x, noises)
        y, z = self.recursion(y, z, x, noises)
        return linear(y, self.head.to(y.dtype)).float(), self.settled(y[:, 0].float()).squeeze(1)
