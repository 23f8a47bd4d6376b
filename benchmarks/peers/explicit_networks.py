"""Explicit networks for CIFAR's small images, as their papers describe them, in plain torch: what a DEQ is compared
with, and what libdeq's own explicit networks are."""

import torch
from torch import nn


def normed(inputs, outputs, kernel, stride=1):
    """A convolution that keeps the size at stride 1, and its normalisation."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


def rectified(*sizes):
    return [*normed(*sizes), nn.ReLU(inplace=True)]


def classifier(layers, features, classes):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride, body):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            *normed(inputs, outputs, 1, stride))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def basic_block(inputs, planes, stride):
    return Residual(inputs, planes, stride, rectified(inputs, planes, 3, stride) + normed(planes, planes, 3))


def bottleneck(inputs, planes, stride):
    return Residual(inputs, 4 * planes, stride,
                    rectified(inputs, planes, 1) + rectified(planes, planes, 3, stride) + normed(planes, 4 * planes, 1))


def resnet(block, expansion, counts, classes):
    """A 3×3 stem without pooling, then the stages."""
    layers, inputs = rectified(3, 64, 3), 64
    for stage, count in enumerate(counts):
        planes = 64 << stage
        for k in range(count):
            layers.append(block(inputs, planes, 2 if stage > 0 and k == 0 else 1))
            inputs = expansion * planes
    return classifier(layers, inputs, classes)


def resnet18(classes=10):
    """11.2M parameters."""
    return resnet(basic_block, 1, (2, 2, 2, 2), classes)


def resnet101(classes=10):
    """42.5M parameters."""
    return resnet(bottleneck, 4, (3, 4, 23, 3), classes)


class Dense(nn.Module):
    """x and what a bottleneck makes of it."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), *rectified(inputs, 4 * growth, 1),
                                  nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat((x, self.body(x)), 1)


def densenet121(classes=10):
    """Blocks of 6, 12, 24 and 16 layers that add 32 channels each; 7.0M parameters."""
    growth, layers, inputs = 32, rectified(3, 64, 3), 64
    for count in (6, 12, 24, 16):
        if inputs != 64:
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.Conv2d(inputs, inputs // 2, 1, bias=False),
                       nn.AvgPool2d(2)]
            inputs //= 2
        for _ in range(count):
            layers.append(Dense(inputs, growth))
            inputs += growth
    return classifier(layers + [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)], inputs, classes)


class Inception(nn.Module):
    """The branches of a module side by side. Without a 1×1 branch it halves height and width."""

    def __init__(self, inputs, single, reduced, triple, double_reduced, double_triple, projected, pool):
        super().__init__()
        stride = 1 if single else 2
        branches = [rectified(inputs, single, 1)] if single else []
        branches.append(rectified(inputs, reduced, 1) + rectified(reduced, triple, 3, stride))
        branches.append(rectified(inputs, double_reduced, 1) + rectified(double_reduced, double_triple, 3)
                        + rectified(double_triple, double_triple, 3, stride))
        pooling = nn.MaxPool2d(3, stride, 1) if pool == "max" else nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        branches.append([pooling, *(rectified(inputs, projected, 1) if projected else [])])
        self.branches = nn.ModuleList(nn.Sequential(*branch) for branch in branches)
        self.outputs = single + triple + double_triple + (projected or inputs)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


# Ioffe and Szegedy (2015), Figure 5. Its sizes of the modules' outputs leave 96 channels for 4c's and 4d's projections.
INCEPTION_V2 = (
    (64, 64, 64, 64, 96, 32, "average"), (64, 64, 96, 64, 96, 64, "average"), (0, 128, 160, 64, 96, 0, "max"),
    (224, 64, 96, 96, 128, 128, "average"), (192, 96, 128, 96, 128, 128, "average"),
    (160, 128, 160, 128, 160, 96, "average"), (96, 128, 192, 160, 192, 96, "average"),
    (0, 128, 192, 192, 256, 0, "max"), (352, 192, 320, 160, 224, 128, "average"),
    (352, 192, 320, 192, 224, 128, "max"))


def inception_v2(classes=10):
    """A 3×3 stem without pooling, then modules 3a to 5b; 10.2M parameters."""
    layers, inputs = rectified(3, 64, 3) + rectified(64, 64, 1) + rectified(64, 192, 3), 192
    for sizes in INCEPTION_V2:
        layers.append(Inception(inputs, *sizes))
        inputs = layers[-1].outputs
    return classifier(layers, inputs, classes)
