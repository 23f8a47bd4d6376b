#pragma once

#include <ATen/core/Tensor.h>

// Masks that all rows of a sample share, in place, on a GPU in bfloat16 or float32: rows x [B·q,
// n], masks m [B, 1, n],
//
//   x ← x ⊙ m,
//
// and zero where `positive` [B·q, n], if defined, is not. The operator deq::mask_samples_ is the
// CUDA plugin's. It reads and writes x once, and reads `positive` once; torch's product with a mask
// that is broadcast takes three times as long.

namespace deq::kernels {

void mask_samples(const at::Tensor& rows, const at::Tensor& masks, const at::Tensor& positive);

}  // namespace deq::kernels
