"""libdeq's kernels in an f of plain PyTorch: what torch computes, and its derivatives."""

import pytest
import torch

import deq
from deq._own_kernels import OwnKernels, with_own_kernels


class Block(torch.nn.Module):
    def __init__(self, affine=True):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(4, 12, 3, padding=1), torch.nn.GroupNorm(3, 12, affine=affine)
        self.second, self.last = torch.nn.Conv2d(12, 4, 3, padding=1), torch.nn.GroupNorm(2, 4, eps=1e-3)

    def forward(self, z, x):
        return self.last(self.second(torch.relu_(self.norm(self.first(z)))) + x)


def derived(f, z, x):
    """f(z), a product with its Jacobian, and the gradients of the product's square: what a penalty asks for."""
    value = f(z, x)
    (product,) = torch.autograd.grad(value, z, torch.ones_like(value).cumsum(1), create_graph=True)
    return [value, product, *torch.autograd.grad(product.square().sum(), [*f.parameters()], allow_unused=True)]


@pytest.mark.parametrize("affine", [True, False])
def test_results_and_second_derivatives_are_torchs(affine):
    torch.manual_seed(3)
    f = Block(affine).double()
    z, x = torch.randn(2, 4, 6, 5, dtype=torch.float64, requires_grad=True), torch.randn(2, 4, 6, 5, dtype=torch.float64)
    expected = derived(f, z, x)
    with OwnKernels():
        own = derived(f, z, x)
    for a, b in zip(own, expected):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_images_are_in_the_order_of_the_kernel():
    f, z = Block(), torch.randn(2, 4, 6, 5)
    with OwnKernels(), torch.no_grad():
        assert f(z, 0 * z).is_contiguous(memory_format=torch.channels_last)
        # What is no image is torch's.
        rows = torch.randn(5, 12)
        torch.testing.assert_close(f.norm(rows), torch.nn.GroupNorm(3, 12)(rows))


def test_under_autocast_a_norm_gives_float32_as_torchs_does():
    f, z = Block(), torch.randn(2, 4, 6, 5)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        expected = f(z, 0 * z)
        with OwnKernels():
            own = f(z, 0 * z)
    assert own.dtype == expected.dtype
    torch.testing.assert_close(own, expected, rtol=0.05, atol=0.05)


def test_on_the_cpu_f_is_evaluated_as_it_is():
    seen = []
    with_own_kernels(lambda z, x: seen.append(torch.overrides._get_current_function_mode()))(torch.ones(2), None)
    assert seen == [None]


def test_a_replayed_layer_is_that_of_torchs_kernels():
    available, reason = deq.cuda_status()
    if not available:
        pytest.skip(reason)
    torch.manual_seed(4)
    f = Block().cuda()
    z0 = x = torch.randn(3, 4, 8, 8, device="cuda")
    options = dict(forward=deq.Anderson(max_evals=8, rtol=0.0))
    plain, replayed = deq.Equilibrium(f, replay="off", **options), deq.Equilibrium(f, replay=True, **options)
    for _ in range(3):
        torch.testing.assert_close(replayed(x, z0=z0).z, plain(x, z0=z0).z, rtol=1e-3, atol=1e-3)
