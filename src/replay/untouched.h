#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <vector>

namespace deq {

/// The random state of a device's own generator.
class RandomState {
 public:
  explicit RandomState(const torch::Device& device);

  void restore() const;
  bool operator==(const RandomState& other) const { return state_.equal(other.state_); }

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

/// What happens while it lives has not happened for these buffers, the statistics of a batch norm
/// for one, and for the device's random numbers.
class Untouched {
 public:
  Untouched(const torch::Device& device, const std::vector<torch::Tensor>& buffers);
  ~Untouched();
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  /// The random numbers stay as they are now.
  void keep_random_numbers() { restores_random_ = false; }

 private:
  RandomState random_;
  bool restores_random_ = true;
  std::vector<torch::Tensor> buffers_, before_;
};

}  // namespace deq
