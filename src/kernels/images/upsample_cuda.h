#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of upsample.h; see images_cuda.h for how images lie.

namespace deq::kernels::cuda {

/// Of the small images.
struct UpsampleShape {
  int64_t batch, channels, height, width;
};

/// y = U small (+ x), not below zero with `relu`, and zero where there is a mask and it is not
/// positive.
void upsample_add(Number type, const UpsampleShape& shape, ImagePointer small, ImagePointer x,
                  ImagePointer mask, bool relu, void* y, cudaStream_t stream);

/// for_small = Uᵀ p, where p is g, or zero where there is a mask and it is not positive; then for_x
/// is p.
void upsample_add_backward(Number type, const UpsampleShape& shape, ImagePointer g,
                           ImagePointer mask, void* for_small, void* for_x, cudaStream_t stream);

}  // namespace deq::kernels::cuda
