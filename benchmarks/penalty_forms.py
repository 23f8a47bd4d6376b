#!/usr/bin/env python3
"""What the Jacobian penalty costs in its two forms, on a GPU, in plain torch.

    python3 benchmarks/penalty_forms.py

Both estimate ‖J‖²_F of the multiscale DEQ's layer at 96 states, J = ∂f/∂z, with one random ε, and differentiate the
estimate by the parameters: ‖εᵀJ‖² by reverse over reverse mode, ‖Jε‖² by reverse over forward mode. Each is recorded
once as a CUDA graph, so that only the device's work is compared. Needs a GPU and a Python with torch and torchdeq.
"""

import statistics

import torch
from torch.autograd import forward_ad, grad

from peers.torchdeq_mdeq import LARGE, Layer

BATCH, REPEATS = 96, 20


def states():
    return [torch.randn(BATCH, c, 32 >> i, 32 >> i, device="cuda") for i, c in enumerate(LARGE.channels)]


def squares(tensors):
    return sum(t.square().sum() for t in tensors)


def reverse_over_reverse(f, z, epsilon, parameters):
    with torch.enable_grad():
        z = [part.detach().requires_grad_() for part in z]
        product = grad(f(*z), z, epsilon, create_graph=True)
        value = squares(product)
        return value, grad(value, parameters, allow_unused=True)


def reverse_over_forward(f, z, epsilon, parameters):
    with torch.enable_grad(), forward_ad.dual_level():
        duals = f(*[forward_ad.make_dual(part, tangent) for part, tangent in zip(z, epsilon)])
        value = squares(forward_ad.unpack_dual(part).tangent for part in duals)
        return value, grad(value, parameters, allow_unused=True)


def recorded_ms(work):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value, _ = work()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times), value.item()


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    layer = Layer(LARGE.channels).cuda()
    injection, z, epsilon = torch.randn(BATCH, LARGE.channels[0], 32, 32, device="cuda"), states(), states()
    parameters = list(layer.parameters())
    for form in (reverse_over_reverse, reverse_over_forward):
        ms, value = recorded_ms(lambda: form(lambda *parts: layer(*parts, injection), z, epsilon, parameters))
        print(f"{form.__name__:24} {ms:8.2f} ms   estimate {value:.4g}")


if __name__ == "__main__":
    main()
