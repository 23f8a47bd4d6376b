#pragma once

#include <ATen/core/Tensor.h>

// Images in the order the CPU kernels work in: all channels of a pixel side by side.

namespace deq::kernels {

/// x with pixels without gaps; samples may lie apart, as the parts of a slab do. A copy only where
/// x is not so already.
at::Tensor dense_pixels(const at::Tensor& x);

/// A new tensor in that order, on the CPU. Its memory is that of one of the same size that is no
/// longer in use, if there is one: memory that malloc gives back to the system between the steps of
/// a solve is paid for again in page faults, which cost more than a group norm. No more is kept
/// than was in use at once.
at::Tensor empty_images(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace deq::kernels
