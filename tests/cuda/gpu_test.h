#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "deq/core/cuda.h"
#include "support/seed.h"

namespace deq::test {

/// A test on the GPU; without one it says so and is skipped.
class GpuTest : public Seeded {
 protected:
  void SetUp() override {
    if (!cuda_status().available) GTEST_SKIP() << cuda_status().reason;
  }

  /// Normal numbers that `type` holds exactly, on the GPU.
  at::Tensor draw(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
    return torch::randn(shape, generator_, torch::kFloat64).to(type).to(at::kCUDA);
  }

  /// Images in channels-last order that are a part of a slab, as a solver's state is.
  at::Tensor draw_part(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
    const auto size = shape[1] * shape[2] * shape[3];
    return draw({shape[0], size + 24}, type)
        .narrow(1, 16, size)
        .view({shape[0], shape[2], shape[3], shape[1]})
        .permute({0, 3, 1, 2});
  }
};

/// All cases of a long list, or every n-th where DEQ_TEST_EVERY=n says so: compute-sanitizer makes
/// each of them many times as long.
template <class Case>
std::vector<Case> thinned(const std::vector<Case>& all) {
  const char* asked = std::getenv("DEQ_TEST_EVERY");
  const size_t every = asked != nullptr ? std::stoul(asked) : 1;
  std::vector<Case> some;
  for (size_t i = 0; i < all.size(); i += std::max<size_t>(every, 1)) some.push_back(all[i]);
  return some;
}

inline double largest(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0
             ? tensor.detach().to(at::kDouble).abs().max().item<double>()
             : 0;
}

/// The largest difference of two tensors, in float64.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return largest(a.detach().to(at::kDouble) - b.detach().to(at::kDouble));
}

}  // namespace deq::test
