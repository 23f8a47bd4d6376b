"""Residual networks for CIFAR's small images, as their papers describe them: what a DEQ is compared with."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        outputs = 4 * planes
        self.body = nn.Sequential(
            nn.Conv2d(inputs, planes, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(inplace=True),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(inplace=True),
            nn.Conv2d(planes, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet101(classes=10):
    """3×3 stem without pooling, 3 + 4 + 23 + 3 bottlenecks: 42.5M parameters."""
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)], 64
    for stage, count in enumerate((3, 4, 23, 3)):
        planes = 64 << stage
        for k in range(count):
            layers.append(Bottleneck(inputs, planes, 2 if stage > 0 and k == 0 else 1))
            inputs = 4 * planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
