#include "nn/step_recordings.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <algorithm>

namespace deq {
namespace {

constexpr size_t kMostRecordings = 4;     // each holds the memory of a step with its graph
constexpr size_t kMostSignatures = 1024;  // before they are forgotten

/// Everything that a recording takes for granted.
std::vector<int64_t> signature_of(const StepShape& shape) {
  std::vector<int64_t> signature;
  const auto add = [&](const torch::Tensor& tensor) {
    signature.push_back(tensor.defined() ? tensor.dim() : -1);
    if (!tensor.defined()) return;
    signature.push_back(static_cast<int64_t>(tensor.scalar_type()));
    signature.push_back(tensor.device().index());
    signature.push_back(tensor.requires_grad() ? 1 : 0);
    signature.insert(signature.end(), tensor.sizes().begin(), tensor.sizes().end());
    signature.insert(signature.end(), tensor.strides().begin(), tensor.strides().end());
  };
  add(shape.z);
  for (const auto& tensor : shape.inputs) add(tensor);
  // Parameters and buffers are recorded by their place in memory.
  for (const auto& tensors : {shape.cell->parameters(), shape.cell->buffers()}) {
    for (const auto& tensor : tensors) {
      signature.push_back(tensor.requires_grad() ? 1 : 0);
      signature.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.data_ptr())));
    }
  }
  const auto device = shape.z.device().type();
  signature.push_back(shape.with_gradients ? 1 : 0);
  signature.push_back(shape.cell->is_training() ? 1 : 0);
  signature.push_back(at::autocast::is_autocast_enabled(device) ? 1 : 0);
  signature.push_back(static_cast<int64_t>(at::autocast::get_autocast_dtype(device)));
  signature.push_back(at::globalContext().allowTF32CuBLAS() ? 1 : 0);
  signature.push_back(at::globalContext().allowTF32CuDNN() ? 1 : 0);
  return signature;
}

}  // namespace

std::shared_ptr<RecordedStep> StepRecordings::lend(const StepShape& shape) {
  if (!records_graphs(shape.z.device())) return nullptr;
  const auto signature = signature_of(shape);
  const std::lock_guard lock(mutex_);
  if (seen_.size() > kMostSignatures) seen_.clear();
  if (seen_.insert(signature).second || refused_.contains(signature)) return nullptr;
  try {
    auto lent = find_free(signature);
    if (!lent) lent = record(signature, shape);
    if (lent) lent->load(shape.inputs);
    return lent;
  } catch (const std::exception& error) {
    refused_.insert(signature);
    TORCH_WARN("an equilibrium layer cannot be replayed as a graph and is evaluated step by step: ",
               error.what());
    return nullptr;
  }
}

std::shared_ptr<RecordedStep> StepRecordings::find_free(const Signature& signature) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.step.use_count() == 1 && entry.signature == signature;
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().step;
}

std::shared_ptr<RecordedStep> StepRecordings::record(const Signature& signature,
                                                     const StepShape& shape) {
  if (entries_.size() >= kMostRecordings) {
    const auto oldest = std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& entry) {
      return entry.step.use_count() == 1;
    });
    if (oldest == entries_.rend()) return nullptr;
    entries_.erase(std::next(oldest).base());
  }
  entries_.push_front({signature, std::make_shared<RecordedStep>(shape)});
  return entries_.front().step;
}

}  // namespace deq
