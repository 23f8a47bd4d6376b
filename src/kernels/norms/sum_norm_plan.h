#pragma once

#include <cstdint>

#include "kernels/images/images_cuda.h"

// Without torch: what all of sum_norm.h's kernels share, and what those of CUDA hold in registers
// between reading and writing, which bounds the lengths that they serve.

namespace deq::kernels {
constexpr double kSumNormEps = 1e-5;
}

namespace deq::kernels::cuda {

constexpr int kSumNormLanes = 32;        // threads that share a sum
constexpr int kMostFeatureVectors = 16;  // of a thread
constexpr int kMostTokens = 8;           // of a thread

constexpr bool features_fit(int64_t features, int64_t bytes_per_number) {
  return features <=
         int64_t{kSumNormLanes} * kMostFeatureVectors * vector_width(features, bytes_per_number);
}

constexpr bool tokens_fit(int64_t tokens) {
  return tokens <= int64_t{kSumNormLanes} * kMostTokens;
}

}  // namespace deq::kernels::cuda
