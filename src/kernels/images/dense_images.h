#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace deq::kernels {

/// Images [B, C, H, W] of which a slab holds the pixels in channels-last order, in `type` and, on a
/// GPU, without gaps between the samples, as convolutions want them. Differentiable as often as
/// wanted. The operator deq::dense_images is the CUDA plugin's: it reads and writes every number
/// once, where torch's copy of such a part takes four times as long.
at::Tensor dense_images(const at::Tensor& x, at::ScalarType type);

/// The same of all parts of a slab. Their gradients then are parts of one slab as well, which
/// nothing has to gather.
std::vector<at::Tensor> dense_images(const std::vector<at::Tensor>& parts, at::ScalarType type);

}  // namespace deq::kernels
