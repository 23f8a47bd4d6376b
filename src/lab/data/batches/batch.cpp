#include "deq/lab/data/batches/batch.h"

namespace deq::lab {
namespace {

/// From pinned memory a copy to a GPU is only enqueued. From any other the host would wait for all
/// that the GPU still has to do.
torch::Tensor moved_to(const torch::Device& device, const torch::Tensor& tensor) {
  if (!device.is_cuda() || !tensor.device().is_cpu()) return tensor.to(device);
  return tensor.pin_memory().to(tensor.options().device(device), /*non_blocking=*/true);
}

}  // namespace

Batch Batch::to(torch::Device device, std::optional<torch::ScalarType> floating) const {
  Batch moved{{}, skipped};
  moved.tensors.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    const bool convert = floating && tensor.is_floating_point();
    const auto there = moved_to(device, tensor);
    moved.tensors.push_back(convert ? there.to(*floating) : there);
  }
  return moved;
}

}  // namespace deq::lab
