#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The CUDA side of probes.h: a raw device pointer and a stream, no torch headers.

namespace deq::kernels::cuda {

/// Fills out [rows, columns].
template <class T>
void probe(T* out, bool signs, uint64_t key, int64_t first_row, int64_t rows, int64_t columns,
           cudaStream_t stream);

}  // namespace deq::kernels::cuda
