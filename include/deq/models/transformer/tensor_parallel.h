#pragma once

#include <torch/types.h>

#include <cstdint>

namespace deq::models {

/// The processes that hold one model's layers in parts, each in its own. All make the same calls in
/// the same order.
class TensorParallel {
 public:
  TensorParallel() = default;
  TensorParallel(const TensorParallel&) = delete;
  TensorParallel& operator=(const TensorParallel&) = delete;
  virtual ~TensorParallel() = default;

  virtual int64_t rank() const = 0;  ///< of this process, 0 ≤ rank < size
  virtual int64_t size() const = 0;  ///< ≥ 1
  /// Adds a contiguous tensor up over the processes, in place.
  virtual void sum(const torch::Tensor& tensor) = 0;
};

/// Which part a process holds.
struct TensorPart {
  int64_t rank = 0, size = 1;
};

inline TensorPart part_of(const TensorParallel* group) {
  return group == nullptr ? TensorPart{} : TensorPart{.rank = group->rank(), .size = group->size()};
}

}  // namespace deq::models
