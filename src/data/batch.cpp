#include "deq/data/batch.h"

namespace deq {

Batch Batch::to(torch::Device device, std::optional<torch::ScalarType> floating) const {
  Batch moved{{}, skipped};
  moved.tensors.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    const bool convert = floating && tensor.is_floating_point();
    moved.tensors.push_back(tensor.to(device, convert ? *floating : tensor.scalar_type()));
  }
  return moved;
}

}  // namespace deq
