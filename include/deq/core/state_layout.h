#pragma once

#include <torch/types.h>

#include <vector>

namespace deq {

using State = std::vector<torch::Tensor>;

/// How a list of state tensors [B, …] lies in the solvers' one slab [B, D]: side by side, each
/// flattened in its own order (images in channels-last order stay so). A single contiguous tensor
/// packs without a copy, and unpacking always yields views.
class StateLayout {
 public:
  /// The layout of these tensors; all must share their first dimension, type and device.
  static StateLayout of(const State& state);

  int64_t dim() const { return dim_; }
  size_t count() const { return shapes_.size(); }

  /// In the layout's type, whatever the state's: a step may compute in another precision. What was
  /// unpacked from a slab is that slab.
  torch::Tensor pack(const State& state) const;
  State unpack(const torch::Tensor& slab) const;

 private:
  /// The slab of which these are the parts, in their order; undefined where there is none.
  torch::Tensor slab_of(const State& state) const;

  std::vector<std::vector<int64_t>> shapes_;  // without the batch dimension
  std::vector<int64_t> sizes_;
  std::vector<bool> channels_last_;
  int64_t dim_ = 0;
  torch::ScalarType type_ = torch::kFloat32;
};

}  // namespace deq
