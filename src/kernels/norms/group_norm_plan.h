#pragma once

#include "kernels/images/images_cuda.h"

// What library and CUDA plugin both know of the CUDA kernels of group_norm.h.

namespace deq::kernels::cuda {

constexpr int kGroupNormThreads = 512;  // of a block, at most

/// The threads of a block share the channels of a pixel.
constexpr bool group_norm_fits(int64_t channels_per_group, int64_t bytes_per_number) {
  const int width = vector_width(channels_per_group, bytes_per_number);
  return channels_per_group / width <= kGroupNormThreads;
}

}  // namespace deq::kernels::cuda
