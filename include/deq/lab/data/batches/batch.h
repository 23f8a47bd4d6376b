#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace deq::lab {

/// What one evaluation of a model is fed with.
struct Batch {
  std::vector<torch::Tensor> tensors;  ///< the first dimension of each is the sample
  int64_t skipped = 0;                 ///< unreadable samples that were left out

  int64_t size() const { return tensors.empty() ? 0 : tensors.front().size(0); }

  /// The same on `device`, floating-point tensors as `floating` where it is given.
  Batch to(torch::Device device, std::optional<torch::ScalarType> floating = {}) const;
};

}  // namespace deq::lab
