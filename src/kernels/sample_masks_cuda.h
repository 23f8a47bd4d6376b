#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The CUDA side of sample_masks.h, in bfloat16.

namespace deq::kernels::cuda {

/// Rows of a sample, samples, and numbers of a row, a multiple of eight.
struct MaskedRows {
  int64_t samples, rows, numbers;
};

/// All dense and aligned to 16 bytes; no `positive` is a null pointer.
void mask_samples(const MaskedRows& shape, void* rows, const void* masks, const void* positive,
                  cudaStream_t stream);

}  // namespace deq::kernels::cuda
