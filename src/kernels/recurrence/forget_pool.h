#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

// The pooling of a quasi-recurrent layer over time. Of what a position's inputs make, y = (a, b,
// d), and the state c₋₁ before the first,
//
//   cₜ = fₜ ⊙ cₜ₋₁ + (1 − fₜ) ⊙ zₜ,  hₜ = oₜ ⊙ cₜ,   z = tanh(a), f = σ(b), o = σ(d).
//
// Forward reads y once and writes h and all c. Backward goes from the last position to the first
// and reads ∂h, y and c: z, f and o are made again. Both are bound by memory bandwidth. Features do
// not see each other, so the order of every sum is that of time, whatever the number of threads.
// deq::forget_pool and deq::forget_pool_backward are operators; the CPU's serve float32 and
// float64, the CUDA plugin's a y of bfloat16 too, whose c are float32.

namespace deq::kernels {

struct ForgetPool {
  at::Tensor h;  ///< [B, T, H], of the type of y
  at::Tensor c;  ///< after the last position [B, H]: float64 where y is, else float32
};

/// For y [B, T, 3H] and the state before it [B, H]. Differentiable as often as wanted. On the CPU a
/// y of fewer digits is computed with in float32, and h is of that type.
ForgetPool forget_pool(const at::Tensor& y, const at::Tensor& start);

namespace reference {
/// Position by position.
ForgetPool forget_pool(const at::Tensor& y, const at::Tensor& start);
}  // namespace reference

namespace cpu {
/// h and all c, both [B, T, H].
std::tuple<at::Tensor, at::Tensor> forget_pool(const at::Tensor& y, const at::Tensor& start);
/// ∂y and the gradient of the start, for ∂h and the gradient of the last c.
std::tuple<at::Tensor, at::Tensor> forget_pool_backward(const at::Tensor& g,
                                                        const at::Tensor& g_last,
                                                        const at::Tensor& y,
                                                        const at::Tensor& start,
                                                        const at::Tensor& c);
}  // namespace cpu

}  // namespace deq::kernels
