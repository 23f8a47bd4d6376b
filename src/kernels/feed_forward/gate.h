#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kernels/common/over.h"

// The gate of a SwiGLU,
//
//   h = silu(a) ⊙ u,  silu(a) = a σ(a),
//
// a and u the first and the second half of one tensor, along features or tokens. Forward reads both
// and writes h. Backward reads ∂h and both, and writes
//
//   ∂a = ∂h ⊙ u ⊙ σ(a) (1 + a (1 − σ(a))),  ∂u = ∂h ⊙ silu(a),  and h once more,
//
// which whoever multiplies h by a matrix needs for the gradient of it: so h need not be kept.
// deq::gate and deq::gate_backward are operators; the CPU's serve float32 and float64, the CUDA
// plugin's bfloat16 too.

namespace deq::kernels {

/// `both` [B, tokens, features], 2n in the dimension of the halves. Without a graph.
at::Tensor gate(const at::Tensor& both, Over over);

/// ∂both and h.
using GateGradients = std::tuple<at::Tensor, at::Tensor>;
GateGradients gate_backward(const at::Tensor& g, const at::Tensor& both, Over over);

namespace reference {
/// Differentiable.
at::Tensor gate(const at::Tensor& both, Over over);
}  // namespace reference

namespace cpu {
/// `rows` times both halves of a row, one after the other.
at::Tensor gate(const at::Tensor& both, at::IntArrayRef shape, int64_t rows);
GateGradients gate_backward(const at::Tensor& g, const at::Tensor& both, int64_t rows);
}  // namespace cpu

}  // namespace deq::kernels
