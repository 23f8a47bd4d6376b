"""The authors' MDEQs for CIFAR-10, written with torchdeq: the peer of compare_mdeq.py and of compare_gpu.py.

Parameters and buffers have the names of libdeq's. Weight norm and solvers are torchdeq's own.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torchdeq import get_deq
from torchdeq.loss import jac_reg
from torchdeq.norm import apply_norm, reset_norm

EXPANSION, GROUPS, CLASSES = 5, 8, 10


@dataclass(frozen=True)
class Sizes:
    channels: tuple
    head: tuple
    features: int


TINY = Sizes((24, 24), (8, 16), 200)
LARGE = Sizes((32, 64, 128, 256), (14, 28, 56, 112), 1680)


def conv(inputs, outputs, kernel=3, stride=1, bias=False):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=bias)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = EXPANSION * channels
        self.conv1, self.gn1 = conv(channels, inner), nn.GroupNorm(GROUPS, inner)
        self.conv2, self.gn2 = conv(inner, channels), nn.GroupNorm(GROUPS, channels)
        self.gn3 = nn.GroupNorm(GROUPS, channels)

    def forward(self, x, injection=None):
        y = self.conv2(torch.relu_(self.gn1(self.conv1(x))))
        if injection is not None:
            y = y + injection
        return self.gn3(torch.relu_(self.gn2(y) + x))


class Branch(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.blocks = nn.ModuleList([Block(channels)])


def conv_and_norm(inputs, outputs, kernel, stride):
    return nn.ModuleDict({"conv": conv(inputs, outputs, kernel, stride), "gnorm": nn.GroupNorm(GROUPS, outputs)})


class Resample(nn.Module):
    """From scale j to scale i: down by strided convolutions, up by repetition."""

    def __init__(self, channels, i, j):
        super().__init__()
        self.factor = 2 ** max(0, j - i)
        if j > i:
            self.net = conv_and_norm(channels[j], channels[i], 1, 1)
        else:
            outputs = [channels[j]] * (i - j - 1) + [channels[i]]
            self.net = nn.ModuleList(conv_and_norm(channels[j], c, 3, 2) for c in outputs)

    def forward(self, x):
        if self.factor > 1:
            y = self.net["gnorm"](self.net["conv"](x))
            return nn.functional.interpolate(y, scale_factor=self.factor, mode="nearest")
        for k, layers in enumerate(self.net):
            x = layers["gnorm"](layers["conv"](x if k == 0 else torch.relu_(x)))
        return x


class Layer(nn.Module):
    """f: the blocks of all scales, then each scale plus the others, resampled."""

    def __init__(self, channels):
        super().__init__()
        scales = range(len(channels))
        self.branches = nn.ModuleList(Branch(c) for c in channels)
        self.fuse_layers = nn.ModuleList(
            nn.ModuleList(nn.Identity() if i == j else Resample(channels, i, j) for j in scales) for i in scales)
        self.post_fuse_layers = nn.ModuleList(
            nn.ModuleDict({"conv": conv(c, c, 1),
                           "gnorm": nn.GroupNorm(GROUPS // 2, c, affine=False)}) for c in channels)

    def forward(self, *z_and_injection):
        *z, injection = z_and_injection
        x = [branch.blocks[0](z[i], injection if i == 0 else None) for i, branch in enumerate(self.branches)]
        return tuple(self.fused(i, x) for i in range(len(x)))

    def fused(self, i, x):
        total = sum(resample(part) for resample, part in zip(self.fuse_layers[i], x))
        layers = self.post_fuse_layers[i]
        return layers["gnorm"](layers["conv"](torch.relu_(total)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, planes, 1), nn.BatchNorm2d(planes, affine=False)
        self.conv2, self.bn2 = conv(planes, planes), nn.BatchNorm2d(planes, affine=False)
        self.conv3, self.bn3 = conv(planes, 4 * planes, 1), nn.BatchNorm2d(4 * planes, affine=False)
        self.downsample = nn.Sequential(conv(inputs, 4 * planes, 1), nn.BatchNorm2d(4 * planes))

    def forward(self, x):
        y = torch.relu_(self.bn1(self.conv1(x)))
        y = torch.relu_(self.bn2(self.conv2(y)))
        return torch.relu_(self.bn3(self.conv3(y)) + self.downsample(x))


def conv_norm_relu(inputs, outputs, kernel, stride, bias):
    return nn.Sequential(conv(inputs, outputs, kernel, stride, bias), nn.BatchNorm2d(outputs),
                         nn.ReLU(inplace=True))


class TorchdeqMdeq(nn.Module):
    """`forward` and `adjoint` are numbers of evaluations, with a tolerance that is never met."""

    def __init__(self, solver, forward, adjoint, penalty, sizes=TINY):
        super().__init__()
        channels, self.channels, head = sizes.channels, sizes.channels, sizes.head
        stem = [conv_norm_relu(3, channels[0], 3, 1, False),
                conv_norm_relu(channels[0], channels[0], 3, 1, False)]
        self.downsample = nn.Sequential(*stem[0], *stem[1])
        self.fullstage = Layer(channels)
        apply_norm(self.fullstage, "weight_norm", prefix_filter_out="fuse_layers")
        self.incre_modules = nn.ModuleList(
            nn.ModuleList([Bottleneck(c, h)]) for c, h in zip(channels, head))
        self.downsamp_modules = nn.ModuleList(
            conv_norm_relu(4 * a, 4 * b, 3, 2, True) for a, b in zip(head, head[1:]))
        self.final_layer = conv_norm_relu(4 * head[-1], sizes.features, 1, 1, True)
        self.classifier = nn.Linear(sizes.features, CLASSES)
        self.penalty = penalty
        # torchdeq's Broyden evaluates the start before it counts.
        first = 1 if solver == "broyden" else 0
        # hook_ift: of torchdeq's two implicit gradients the one that does not evaluate f anew.
        self.deq = get_deq(f_solver=solver, b_solver=solver, f_max_iter=forward - first,
                           b_max_iter=adjoint - first, f_tol=0.0, b_tol=0.0, f_stop_mode="rel",
                           b_stop_mode="rel", ift=True, hook_ift=True)

    def forward(self, images):
        """Logits and, in training with the penalty, the Jacobian term."""
        injection = self.inject(images)
        batch, _, height, width = injection.shape
        start = [injection.new_zeros(batch, c, height >> i, width >> i)
                 for i, c in enumerate(self.channels)]

        def f(*z):
            return self.fullstage(*z, injection)

        states, _ = self.deq(f, start)
        logits = self.classify(*states[-1])
        return logits, self.jacobian(f, states[-1]) if self.penalty and self.training else 0.0

    def inject(self, images):
        """What f needs beside the state, and its normalised weights: once per solve."""
        reset_norm(self.fullstage)
        return self.downsample(images)

    def jacobian(self, f, z):
        flat = torch.cat([part.flatten(1) for part in z], 1).detach().requires_grad_()
        parts = flat.split([part[0].numel() for part in z], 1)
        image = f(*(part.view_as(like) for part, like in zip(parts, z)))
        return jac_reg(torch.cat([part.flatten(1) for part in image], 1), flat)

    def classify(self, *z):
        y = self.incre_modules[0][0](z[0])
        for i, shrink in enumerate(self.downsamp_modules):
            y = self.incre_modules[i + 1][0](z[i + 1]) + shrink(y)
        return self.classifier(self.final_layer(y).mean((2, 3)))
