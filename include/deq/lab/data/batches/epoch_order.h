#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace deq::lab {

/// The order in which an epoch visits a data set: a function of seed and epoch, the same on every
/// rank. May be asked from several threads at once.
class EpochOrder {
 public:
  /// Orders live on `device`; without `shuffle` all are 0, 1, 2, ….
  EpochOrder(int64_t samples, uint64_t seed, bool shuffle, torch::Device device = torch::kCPU);

  /// A permutation of 0 … samples − 1, [samples], shared with whoever else asks: to be read only.
  torch::Tensor of(int64_t epoch) const;

 private:
  struct Entry {
    int64_t epoch = -1;
    torch::Tensor order;
  };

  torch::Tensor draw(int64_t epoch) const;

  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  torch::Device device_;
  mutable std::mutex mutex_;
  mutable std::array<Entry, 2> drawn_;  // workers run ahead into the next epoch
};

}  // namespace deq::lab
