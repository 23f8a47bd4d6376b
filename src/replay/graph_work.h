#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "replay/device_graph.h"
#include "replay/gradient_ends.h"

namespace deq {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

/// Records work on modules, so that it can be replayed: with graphs of its own to their parameters,
/// and without traces of the recording itself in their buffers or in the random numbers.
class GraphWork {
 public:
  /// Graphs lead to the parameters that require gradients where it is `differentiable`.
  GraphWork(const torch::Device& device, const Modules& modules, bool differentiable);

  /// In the precision in force.
  std::unique_ptr<DeviceGraph> record_forward(const std::function<void()>& work);
  /// In the types of forward.
  std::unique_ptr<DeviceGraph> record_backward(const std::function<void()>& work);
  void begin_own_memory() { recorder_->begin_own_memory(); }

  const std::vector<torch::Tensor>& parameters() const { return ends_.parameters(); }
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  GradientEnds& ends() { return ends_; }

 private:
  torch::Device device_;
  std::vector<torch::Tensor> buffers_;
  GradientEnds ends_;
  std::unique_ptr<GraphRecorder> recorder_;
};

/// Whether a recording can be given these tensors: the numbers of one on another device, such as a
/// scalar on the host's, are read while kernels are enqueued, and stay as they were then.
bool all_are_on(const torch::Device& device, const std::vector<torch::Tensor>& inputs);

/// Copies without a new version: autograd need not know, because all that it saved is computed anew
/// as well. Nothing is copied onto itself.
void copy_into(const torch::Tensor& own, const torch::Tensor& from);

/// A copy to be copied into.
torch::Tensor own_memory(const torch::Tensor& like);

/// Copies of a pass's inputs to be copied into; those that require gradients do so too where they
/// are to be differentiated. What is undefined stays so.
std::vector<torch::Tensor> own_inputs(const std::vector<torch::Tensor>& like, bool differentiable);
void copy_inputs(const std::vector<torch::Tensor>& own, const std::vector<torch::Tensor>& from);

/// What a pass's gradients are for: the inputs that require some, then the parameters.
std::vector<torch::Tensor> leaves_of(const std::vector<torch::Tensor>& inputs,
                                     const std::vector<torch::Tensor>& parameters = {});

}  // namespace deq
