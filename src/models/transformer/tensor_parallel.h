#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "deq/models/transformer/tensor_parallel.h"

// Where what all processes of a group share meets what each has for itself. Without a group these
// functions do nothing.

namespace deq::models {

using TensorGroup = std::shared_ptr<TensorParallel>;

/// x, the same on all processes, for each of them to use its part of a layer on: its gradient is
/// the sum of theirs.
torch::Tensor to_parts(const torch::Tensor& x, const TensorGroup& group);

/// The sum of what the processes have made: its gradient is that of each.
torch::Tensor sum_of_parts(const torch::Tensor& x, const TensorGroup& group);

/// As long as it lives, torch's own generator of a device draws what follows from `key` and the
/// rank; afterwards it goes on as if it had drawn nothing. So parts differ in what they draw, and
/// agree in all that is drawn for what they share.
class PartsNoise {
 public:
  PartsNoise(torch::Device device, uint64_t key, const TensorParallel& group);
  ~PartsNoise();
  PartsNoise(const PartsNoise&) = delete;
  PartsNoise& operator=(const PartsNoise&) = delete;

 private:
  torch::Device device_;
  torch::Tensor before_;
};

}  // namespace deq::models
