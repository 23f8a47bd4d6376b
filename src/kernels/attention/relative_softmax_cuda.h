#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of relative_softmax.h; all tensors are dense.

namespace deq::kernels::cuda {

/// Of n matrices of scores: queries, keys, and the columns of the scores by distance.
struct SoftmaxShape {
  int64_t matrices, queries, keys, columns;
};

/// No dropout is a null pointer, and then there is no `dropped`.
void relative_softmax(Number type, const SoftmaxShape& shape, double scale, int64_t horizon,
                      int64_t hidden, const void* content, const void* distances,
                      const void* dropout, void* probabilities, void* dropped, cudaStream_t stream);

void relative_softmax_backward(Number type, const SoftmaxShape& shape, double scale, const void* g,
                               const void* probabilities, const void* dropout, void* for_content,
                               void* for_distances, cudaStream_t stream);

}  // namespace deq::kernels::cuda
