#include "replay/graph_work.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <algorithm>

#include "core/autocast.h"
#include "replay/side_by_side.h"
#include "replay/untouched.h"

namespace deq {
namespace {

/// Casts that autocast remembers would be recorded as they are now, and be old at the next replay.
class NoRememberedCasts {
 public:
  NoRememberedCasts() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoRememberedCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  NoRememberedCasts(const NoRememberedCasts&) = delete;
  NoRememberedCasts& operator=(const NoRememberedCasts&) = delete;

 private:
  bool before_;
};

std::vector<torch::Tensor> trained_parameters(const Modules& modules) {
  std::vector<torch::Tensor> trained;
  for (const auto& module : modules) {
    for (const auto& parameter : module->parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
  }
  return trained;
}

std::vector<torch::Tensor> all_buffers(const Modules& modules) {
  std::vector<torch::Tensor> all;
  for (const auto& module : modules) {
    for (const auto& buffer : module->buffers()) all.push_back(buffer);
  }
  return all;
}

}  // namespace

GraphWork::GraphWork(const torch::Device& device, const Modules& modules, bool differentiable)
    : device_(device),
      buffers_(all_buffers(modules)),
      ends_(differentiable ? trained_parameters(modules) : std::vector<torch::Tensor>()),
      recorder_(make_graph_recorder(device)) {}

std::unique_ptr<DeviceGraph> GraphWork::record_forward(const std::function<void()>& work) {
  const NoRememberedCasts fresh_casts;
  // What is recorded without gradients may later serve a pass outside of inference mode.
  const c10::InferenceMode ordinary_tensors(false);
  Untouched untouched(device_, buffers_);
  const GradientEnds::Making making(ends_);
  auto graph = recorder_->record([&work] {
    const RecordingScope recording;
    work();
  });
  // What has been drawn meanwhile was drawn by other threads.
  if (!graph->draws_random_numbers()) untouched.keep_random_numbers();
  return graph;
}

std::unique_ptr<DeviceGraph> GraphWork::record_backward(const std::function<void()>& work) {
  const NoAutocast in_forward_types(device_);
  return record_forward(work);
}

bool all_are_on(const torch::Device& device, const std::vector<torch::Tensor>& inputs) {
  return std::ranges::all_of(
      inputs, [&](const auto& input) { return !input.defined() || input.device() == device; });
}

void copy_into(const torch::Tensor& own, const torch::Tensor& from) {
  if (own.is_same(from)) return;
  const torch::NoGradGuard no_grad;
  own.variable_data().copy_(from);
}

torch::Tensor own_memory(const torch::Tensor& like) {
  const torch::NoGradGuard no_grad;
  const c10::InferenceMode ordinary_tensors(false);
  return torch::empty_like(like).copy_(like.detach());
}

std::vector<torch::Tensor> own_inputs(const std::vector<torch::Tensor>& like, bool differentiable) {
  auto own = like;
  for (auto& input : own) {
    if (!input.defined()) continue;
    const bool leaf = differentiable && input.requires_grad();
    input = own_memory(input).requires_grad_(leaf);
  }
  return own;
}

void copy_inputs(const std::vector<torch::Tensor>& own, const std::vector<torch::Tensor>& from) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].defined()) copy_into(own[i], from[i]);
  }
}

std::vector<torch::Tensor> leaves_of(const std::vector<torch::Tensor>& inputs,
                                     const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> leaves;
  for (const auto& input : inputs) {
    if (input.defined() && input.requires_grad()) leaves.push_back(input);
  }
  leaves.insert(leaves.end(), parameters.begin(), parameters.end());
  return leaves;
}

}  // namespace deq
