#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of sample_masks.h.

namespace deq::kernels::cuda {

/// Rows of a sample, samples, and numbers of a row, a multiple of eight.
struct MaskedRows {
  int64_t samples, rows, numbers;
};

/// All dense, aligned to 16 bytes, and of one type, BFloat16 or Float32; no `positive` is a null
/// pointer.
void mask_samples(Number type, const MaskedRows& shape, void* rows, const void* masks,
                  const void* positive, cudaStream_t stream);

}  // namespace deq::kernels::cuda
