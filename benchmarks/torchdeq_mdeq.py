"""The authors' tiny MDEQ for CIFAR-10, written with torchdeq: the peer of benchmarks/compare_mdeq.py.

Parameters and buffers have the names of libdeq's. Weight norm and solvers are torchdeq's own.
"""

import torch
from torch import nn
from torchdeq import get_deq
from torchdeq.loss import jac_reg
from torchdeq.norm import apply_norm, reset_norm

CHANNELS, HEAD, EXPANSION, GROUPS, FEATURES, CLASSES = (24, 24), (8, 16), 5, 8, 200, 10


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


class Resample(nn.Module):
    """From one scale to the other: down by a strided convolution, up by repetition."""

    def __init__(self, inputs, outputs, down):
        super().__init__()
        layers = nn.ModuleDict({"conv": conv(inputs, outputs, 3 if down else 1, 2 if down else 1),
                                "gnorm": nn.GroupNorm(GROUPS, outputs)})
        self.down = down
        self.net = nn.ModuleList([layers]) if down else layers

    def forward(self, x):
        layers = self.net[0] if self.down else self.net
        y = layers["gnorm"](layers["conv"](x))
        return y if self.down else nn.functional.interpolate(y, scale_factor=2, mode="nearest")


class Layer(nn.Module):
    """f: the blocks of both scales, then each scale plus the other, resampled."""

    def __init__(self):
        super().__init__()
        fine, coarse = CHANNELS
        self.branches = nn.ModuleList(Branch(c) for c in CHANNELS)
        self.fuse_layers = nn.ModuleList([
            nn.ModuleList([nn.Identity(), Resample(coarse, fine, down=False)]),
            nn.ModuleList([Resample(fine, coarse, down=True), nn.Identity()])])
        self.post_fuse_layers = nn.ModuleList(
            nn.ModuleDict({"conv": conv(c, c, 1),
                           "gnorm": nn.GroupNorm(GROUPS // 2, c, affine=False)}) for c in CHANNELS)

    def post(self, i, x):
        layers = self.post_fuse_layers[i]
        return layers["gnorm"](layers["conv"](torch.relu_(x)))

    def forward(self, fine, coarse, injection):
        fine = self.branches[0].blocks[0](fine, injection)
        coarse = self.branches[1].blocks[0](coarse)
        return (self.post(0, fine + self.fuse_layers[0][1](coarse)),
                self.post(1, coarse + self.fuse_layers[1][0](fine)))


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

    def __init__(self, solver, forward, adjoint, penalty):
        super().__init__()
        stem = [conv_norm_relu(3, CHANNELS[0], 3, 1, False),
                conv_norm_relu(CHANNELS[0], CHANNELS[0], 3, 1, False)]
        self.downsample = nn.Sequential(*stem[0], *stem[1])
        self.fullstage = Layer()
        apply_norm(self.fullstage, "weight_norm", prefix_filter_out="fuse_layers")
        self.incre_modules = nn.ModuleList(
            nn.ModuleList([Bottleneck(c, h)]) for c, h in zip(CHANNELS, HEAD))
        self.downsamp_modules = nn.ModuleList([conv_norm_relu(4 * HEAD[0], 4 * HEAD[1], 3, 2, True)])
        self.final_layer = conv_norm_relu(4 * HEAD[1], FEATURES, 1, 1, True)
        self.classifier = nn.Linear(FEATURES, CLASSES)
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
                 for i, c in enumerate(CHANNELS)]

        def f(fine, coarse):
            return self.fullstage(fine, coarse, injection)

        states, _ = self.deq(f, start)
        fine, coarse = states[-1]
        logits = self.classify(fine, coarse)
        return logits, self.jacobian(f, fine, coarse) if self.penalty else 0.0

    def inject(self, images):
        """What f needs beside the state, and its normalised weights: once a solve."""
        reset_norm(self.fullstage)
        return self.downsample(images)

    def jacobian(self, f, fine, coarse):
        flat = torch.cat([fine.flatten(1), coarse.flatten(1)], 1).detach().requires_grad_()
        parts = flat.split([fine[0].numel(), coarse[0].numel()], 1)
        image = f(parts[0].view_as(fine), parts[1].view_as(coarse))
        return jac_reg(torch.cat([part.flatten(1) for part in image], 1), flat)

    def classify(self, fine, coarse):
        y = self.incre_modules[0][0](fine)
        y = self.incre_modules[1][0](coarse) + self.downsamp_modules[0](y)
        return self.classifier(self.final_layer(y).mean((2, 3)))
