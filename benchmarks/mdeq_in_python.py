"""The small multiscale DEQ of small_images.py in plain PyTorch, as a cell of the package, with the weights of a run.

deq.models.MDEQ is computed in C++ and takes images to logits as a whole: it has no layer that a stream could be given, and
no head of its own. Here these are Python's. Needs Pillow and safetensors.
"""

import time

import torch
import torch.nn.functional as nnf
from PIL import Image
from torch import nn

import deq

CHANNELS, EXPANSION, GROUPS, HEAD, FEATURES = (16, 16), 3, 4, (4, 8), 64
MOST = 60  # evaluations of a solve that should converge
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = torch.tensor([0.2023, 0.1994, 0.2010]).view(3, 1, 1)


def conv(inputs, outputs, kernel=3, stride=1, bias=False):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=bias)


def conv_norm_relu(inputs, outputs, kernel=3, stride=1, bias=False):
    return nn.Sequential(conv(inputs, outputs, kernel, stride, bias), nn.BatchNorm2d(outputs), nn.ReLU())


def conv_and_norm(inputs, outputs, kernel, stride=1, groups=GROUPS, affine=True):
    norm = nn.GroupNorm(groups, outputs, affine=affine)
    return nn.ModuleDict({"conv": conv(inputs, outputs, kernel, stride), "gnorm": norm})


def applied(layers, x):
    return layers["gnorm"](layers["conv"](x))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = EXPANSION * channels
        self.conv1, self.gn1 = conv(channels, inner), nn.GroupNorm(GROUPS, inner)
        self.conv2, self.gn2 = conv(inner, channels), nn.GroupNorm(GROUPS, channels)
        self.gn3 = nn.GroupNorm(GROUPS, channels)

    def forward(self, x, injection=0.0):
        y = self.conv2(torch.relu(self.gn1(self.conv1(x)))) + injection
        return self.gn3(torch.relu(self.gn2(y) + x))


class Scales(nn.Module):
    """f itself: a block for each of the two scales, then each plus the other one, resampled."""

    def __init__(self):
        super().__init__()
        fine, coarse = CHANNELS
        self.branches = nn.ModuleList(nn.ModuleDict({"blocks": nn.ModuleList([Block(c)])}) for c in CHANNELS)
        up = nn.ModuleDict({"net": conv_and_norm(coarse, fine, 1)})
        down = nn.ModuleDict({"net": nn.ModuleList([conv_and_norm(fine, coarse, 3, 2)])})
        self.fuse_layers = nn.ModuleList([nn.ModuleDict({"1": up}), nn.ModuleDict({"0": down})])
        self.post_fuse_layers = nn.ModuleList(conv_and_norm(c, c, 1, 1, GROUPS // 2, False) for c in CHANNELS)

    def forward(self, z, injection):
        fine, coarse = (branch["blocks"][0] for branch in self.branches)
        fine, coarse = fine(z[0], injection), coarse(z[1])
        up = nnf.interpolate(applied(self.fuse_layers[0]["1"]["net"], coarse), scale_factor=2.0)
        down = applied(self.fuse_layers[1]["0"]["net"][0], fine)
        parts = (fine + up, coarse + down)
        return tuple(applied(layers, torch.relu(part)) for layers, part in zip(self.post_fuse_layers, parts))


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes):
        super().__init__()
        outputs = 4 * planes
        self.conv1, self.bn1 = conv(inputs, planes, 1), nn.BatchNorm2d(planes, affine=False)
        self.conv2, self.bn2 = conv(planes, planes), nn.BatchNorm2d(planes, affine=False)
        self.conv3, self.bn3 = conv(planes, outputs, 1), nn.BatchNorm2d(outputs, affine=False)
        shortcut = nn.Sequential(conv(inputs, outputs, 1), nn.BatchNorm2d(outputs))
        self.downsample = nn.Identity() if inputs == outputs else shortcut

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class SmallMdeq(deq.Cell):
    """The cell takes images. `classify` is what reads its equilibrium."""

    def __init__(self):
        super().__init__()
        fine = CHANNELS[0]
        first, second = conv_norm_relu(3, fine, stride=2), conv_norm_relu(fine, fine)
        self.downsample, self.stage0 = nn.Sequential(*first, *second), conv_norm_relu(fine, fine, 1)
        self.fullstage = Scales()
        self.incre_modules = nn.ModuleList(nn.ModuleList([Bottleneck(c, h)]) for c, h in zip(CHANNELS, HEAD))
        self.downsamp_modules = nn.ModuleList([conv_norm_relu(4 * HEAD[0], 4 * HEAD[1], 3, 2, True)])
        self.final_layer = conv_norm_relu(4 * HEAD[1], FEATURES, 1, 1, True)
        self.classifier = nn.Linear(FEATURES, 10)

    def initial_state(self, images):
        side = images.shape[-1] // 2
        return tuple(images.new_zeros(len(images), c, side >> i, side >> i) for i, c in enumerate(CHANNELS))

    def prepare(self, images):
        return self.stage0(self.downsample(images))

    def step(self, z, injection):
        return self.fullstage(z, injection)

    def classify(self, z):
        fine, coarse = (modules[0](part) for modules, part in zip(self.incre_modules, z))
        return self.classifier(self.final_layer(coarse + self.downsamp_modules[0](fine)).mean((2, 3)))


def load(run):
    """The model of a run, without weight norm, and checked: the package's own has the same answers."""
    own = deq.load(run)
    state = own.state_dict()
    for name in [name for name in state if name.endswith("weight_v")]:
        v, g = state.pop(name), state.pop(name[:-1] + "g")
        state[name[:-2]] = torch._weight_norm(v, g, 0)
    model = SmallMdeq().eval()
    model.load_state_dict(state)
    images = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    options = deq.Anderson(rtol=0.0, max_evals=4)
    plan = deq.EquilibriumPlan(deq.EquilibriumOptions(forward=options))
    with torch.no_grad():
        found = model.classify(deq.Equilibrium(model, forward=options)(images).state)
        torch.testing.assert_close(found, own(images, plan).logits, rtol=1e-3, atol=1e-3)
    return model


def read(folder, first, count, classes=10):
    """[N, 3, 32, 32] on the scale 0 … 1, and the classes, of so many pictures of each class, in turn."""
    pictures, labels = [], []
    files = [sorted(of_class.iterdir())[first : first + count] for of_class in sorted(folder.iterdir())]
    for k in range(count):
        for label in range(classes):
            picture = Image.open(files[label][k]).convert("RGB")
            numbers = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
            pictures.append(numbers.view(32, 32, 3).permute(2, 0, 1) / 255)
            labels.append(label)
    return torch.stack(pictures), torch.tensor(labels)


def scaled(pictures):
    """As the program scales them."""
    return (pictures - MEAN.to(pictures)) / DEVIATION.to(pictures)


def window(pictures, shift):
    """32 × 32 pixels of pictures that were enlarged to 40 × 40, so many of their pixels to the right."""
    large = nnf.interpolate(pictures, size=40, mode="bilinear", align_corners=False)
    theta = torch.tensor([[0.8, 0, -0.2 + shift / 20], [0, 0.8, 0]], dtype=pictures.dtype)
    grid = nnf.affine_grid(theta.expand(len(large), 2, 3), (len(large), 3, 32, 32), align_corners=False)
    return nnf.grid_sample(large, grid, align_corners=False)


def seconds_of(work, *arguments):
    begin = time.process_time()
    result = work(*arguments)
    return time.process_time() - begin, result
