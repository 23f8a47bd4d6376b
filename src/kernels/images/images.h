#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/common/operators.h"

// Images in the order the CPU kernels work in: all channels of a pixel side by side.

namespace deq::kernels {

/// x with pixels without gaps; samples may lie apart, as the parts of a slab do. A copy only where
/// x is not so already.
at::Tensor dense_pixels(const at::Tensor& x);

/// The same of a tensor that may be undefined.
inline OptionalTensor dense_pixels_or_none(const at::Tensor& x) {
  return x.defined() ? OptionalTensor(dense_pixels(x)) : std::nullopt;
}

/// A new tensor in that order, on the CPU; see empty_reused.
at::Tensor empty_images(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace deq::kernels
