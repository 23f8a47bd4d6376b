#include "nn/recordings.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace deq {

RecordingSignature::RecordingSignature(const torch::Device& device) {
  add(device.index());
  // What is recorded for one stream shares workspaces, and must not be replayed on two at a time.
  add(c10::impl::VirtualGuardImpl(device.type()).getStream(device).id());
  add(at::autocast::is_autocast_enabled(device.type()) ? 1 : 0);
  add(static_cast<int64_t>(at::autocast::get_autocast_dtype(device.type())));
  add(at::globalContext().allowTF32CuBLAS() ? 1 : 0);
  add(at::globalContext().allowTF32CuDNN() ? 1 : 0);
}

RecordingSignature& RecordingSignature::add(int64_t number) {
  numbers_.push_back(number);
  return *this;
}

RecordingSignature& RecordingSignature::add(const torch::Tensor& tensor) {
  if (!tensor.defined()) return add(-1);
  add(tensor.dim()).add(static_cast<int64_t>(tensor.scalar_type()));
  add(tensor.requires_grad() ? 1 : 0);
  numbers_.insert(numbers_.end(), tensor.sizes().begin(), tensor.sizes().end());
  numbers_.insert(numbers_.end(), tensor.strides().begin(), tensor.strides().end());
  return *this;
}

RecordingSignature& RecordingSignature::add_places(const std::vector<torch::Tensor>& tensors) {
  for (const auto& tensor : tensors) {
    add(tensor.requires_grad() ? 1 : 0);
    add(static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.const_data_ptr())));
  }
  return *this;
}

ModuleTensors::Tensors ModuleTensors::of(const torch::nn::Module& module) {
  std::vector<std::weak_ptr<torch::nn::Module>> parts;
  module.apply([&parts](const std::shared_ptr<torch::nn::Module>& part) { parts.push_back(part); });
  const auto same = [](const auto& a, const auto& b) { return a.lock() == b.lock(); };
  const std::lock_guard lock(mutex_);
  auto& [known, tensors] = entries_[&module];
  if (!tensors || !std::equal(known.begin(), known.end(), parts.begin(), parts.end(), same)) {
    auto gathered = module.parameters();
    for (auto& buffer : module.buffers()) gathered.push_back(std::move(buffer));
    known = std::move(parts);
    tensors = std::make_shared<const std::vector<torch::Tensor>>(std::move(gathered));
  }
  return tensors;
}

void warn_of_refused_recording(const std::exception& error) {
  TORCH_WARN(
      "a part of an equilibrium model cannot be replayed as a graph and is evaluated step by "
      "step: ",
      error.what());
}

}  // namespace deq
