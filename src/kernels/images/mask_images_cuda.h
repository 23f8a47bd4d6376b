#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of mask_images.h.

namespace deq::kernels::cuda {

struct MaskedImages {
  int64_t batch, channels, pixels;
};

/// All of one type, BFloat16 or Float32; a pixel's channels are whole vectors of 16 bytes. No
/// addend is a null pointer; mask and y are dense.
void mask_images(Number type, const MaskedImages& shape, ImagePointer x, const void* mask,
                 ImagePointer addend, void* y, cudaStream_t stream);

}  // namespace deq::kernels::cuda
