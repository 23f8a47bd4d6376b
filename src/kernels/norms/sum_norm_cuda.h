#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of sum_norm.h: dense tensors [samples, tokens, features] of one type, aligned as
// vectors of their features are, that features_fit() or tokens_fit(). r is float32, or float64 for
// Float64.

namespace deq::kernels::cuda {

struct TokenShape {
  int64_t samples, tokens, features;
};

struct SumNormForward {
  const void *a, *b;
  void *y, *r;
};

struct SumNormBackward {
  const void *g, *y, *r;
  void* for_s;
};

void norm_over_features(Number type, const TokenShape& shape, const SumNormForward& a,
                        cudaStream_t stream);
void norm_over_features(Number type, const TokenShape& shape, const SumNormBackward& a,
                        cudaStream_t stream);
void norm_over_tokens(Number type, const TokenShape& shape, const SumNormForward& a,
                      cudaStream_t stream);
void norm_over_tokens(Number type, const TokenShape& shape, const SumNormBackward& a,
                      cudaStream_t stream);

}  // namespace deq::kernels::cuda
