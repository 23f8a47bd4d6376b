#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of cross_entropy.h: what is left when the scores are there, a dense matrix.

namespace deq::kernels::cuda {

struct ScoresShape {
  int64_t vectors, words;
};

/// The logarithms of the sums and the costs, both of the type that is computed in: float32, or
/// float64 for scores of that type.
void word_costs(Number type, const ScoresShape& shape, const void* scores, const int64_t* targets,
                void* log_sums, void* costs, cudaStream_t stream);

/// pull [vectors, words] = (exp(score − log_sum) − 1 at the target) · g, the gradient of the
/// scores.
void word_costs_backward(Number type, const ScoresShape& shape, const void* g, const void* scores,
                         const int64_t* targets, const void* log_sums, void* pull,
                         cudaStream_t stream);

}  // namespace deq::kernels::cuda
