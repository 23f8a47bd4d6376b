#pragma once

#include <torch/types.h>

// Circular convolutions of [B, C, size, size] images as one small matrix per frequency: spectra are
// [size·(size/2 + 1), out, in], the half that a real image needs.

namespace deq::models {

/// Of circular_conv() with this 3×3 kernel; size ≥ 3.
torch::Tensor spectrum_of_kernel(const torch::Tensor& kernel, int64_t size);

/// Of S G Sᵀ, where G has the spectrum given and S keeps every other row and column; size even.
torch::Tensor every_other_pixel(const torch::Tensor& spectrum, int64_t size);

/// The convolution itself. In the spectrum's precision, whatever the image's.
torch::Tensor filter(const torch::Tensor& spectrum, const torch::Tensor& image);

}  // namespace deq::models
