#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace deq::lab {

/// Samples that are made or read one by one.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;

  /// The tensors of one sample, of the same shapes and types for all. `key` seeds whatever is
  /// random about it, such as its augmentation: a function of seed, epoch and index. Throws when
  /// the sample cannot be read. Called from several threads at once.
  virtual std::vector<torch::Tensor> get(int64_t index, uint64_t key) const = 0;

  /// Names the sample in messages, for instance by its file.
  virtual std::string describe(int64_t index) const { return "sample " + std::to_string(index); }
};

}  // namespace deq::lab
