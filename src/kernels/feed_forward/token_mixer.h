#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

// The part of a reasoner's layer that mixes tokens,
//
//   y = r ⊙ s,  s = x + D·gate(G·x) along the tokens,  r = 1/√(mean s² + 1e-5) over the tokens,
//
// which are swiglu() and sum_norm(). What is between the two products is six times as large as x,
// and the products themselves are small: a GPU spends its time on writing and reading it. So there,
// in bfloat16 and where the matrices are small enough, one kernel does it all: it reads x and
// writes y and r, which is what a tape keeps. Another one makes G·x once more on the way back, and
// from it and ∂s
//
//   ∂x = ∂s + Gᵀ ∂(G·x),  ∂(G·x) and h = gate(G·x),
//
// of which products make the gradients of G and D. The operators deq::mix_tokens,
// deq::mix_tokens_backward and deq::mix_tokens_fits are the CUDA plugin's.

namespace deq::kernels {

/// x [B, tokens, features], G [2·inner, tokens], D [tokens, inner]. Differentiable as often as
/// wanted.
at::Tensor mix_tokens(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down);

/// Whether the kernel serves; otherwise it is the other two operations.
bool mix_tokens_serves(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down);

/// y and r.
using MixedTokens = std::tuple<at::Tensor, at::Tensor>;
/// ∂x, ∂(G·x) and h.
using MixedGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace reference {
at::Tensor mix_tokens(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down);
}  // namespace reference

}  // namespace deq::kernels
