#pragma once

#include <cuda_runtime_api.h>

#include "kernels/images/images_cuda.h"

namespace deq::kernels::cuda {

/// `batch` samples of `numbers` float32 each, as BFloat16 or Float32 into `target`, which is dense.
/// Addresses and the distance of samples are multiples of 16 bytes, `numbers` one of 8.
void dense_images(const ImagePointer& source, int64_t batch, int64_t numbers, Number type,
                  void* target, cudaStream_t stream);

/// The way back: samples that lie one after the other, BFloat16 or Float32, as float32 into
/// `target`, with `stride` numbers from one sample to the next.
void spread_images(const void* source, Number type, int64_t batch, int64_t numbers, float* target,
                   int64_t stride, cudaStream_t stream);

}  // namespace deq::kernels::cuda
