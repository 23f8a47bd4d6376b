#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of gate.h: dense tensors of one type that begin where vectors of 16 bytes do.

namespace deq::kernels::cuda {

/// Rows, and numbers in half of one.
struct GateShape {
  int64_t rows, half;
};

void gate(Number type, const GateShape& shape, const void* both, void* h, cudaStream_t stream);

void gate_backward(Number type, const GateShape& shape, const void* g, const void* both,
                   void* for_both, void* h, cudaStream_t stream);

}  // namespace deq::kernels::cuda
