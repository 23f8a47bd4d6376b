#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of forget_pool.h: dense tensors that begin where vectors of 16 bytes do. y, h and
// their gradients are of the type `type`; states and theirs float64 where it is that, else float32.

namespace deq::kernels::cuda {

struct PoolShape {
  int64_t rows, positions, features;
};

void forget_pool(Number type, const PoolShape& shape, const void* y, const void* start, void* h,
                 void* c, cudaStream_t stream);

/// What a backward reads.
struct PoolTape {
  const void *g, *g_last, *y, *start, *c;
};

void forget_pool_backward(Number type, const PoolShape& shape, const PoolTape& tape, void* for_y,
                          void* for_start, cudaStream_t stream);

}  // namespace deq::kernels::cuda
