#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/device_graph.h"
#include "nn/grad_accumulators.h"

namespace deq {

/// Records work on modules' parameters, each with a graph to them, so that it can be replayed.
class GraphWork {
 public:
  GraphWork(const torch::Device& device, std::vector<torch::Tensor> parameters);

  /// In the precision in force.
  std::unique_ptr<DeviceGraph> record_forward(const std::function<void()>& work);
  /// In the types of forward.
  std::unique_ptr<DeviceGraph> record_backward(const std::function<void()>& work);
  void begin_own_memory() { recorder_->begin_own_memory(); }

 private:
  torch::Device device_;
  GradAccumulators accumulators_;
  std::unique_ptr<GraphRecorder> recorder_;
};

/// Copies without a new version: autograd need not know, because all that it saved is computed anew
/// as well. Nothing is copied onto itself.
void copy_into(const torch::Tensor& own, const torch::Tensor& from);

/// A copy to be copied into.
torch::Tensor own_memory(const torch::Tensor& like);

/// Copies of a pass's inputs to be copied into; those that require gradients do so too where they
/// are to be differentiated. What is undefined stays so.
std::vector<torch::Tensor> own_inputs(const std::vector<torch::Tensor>& like, bool differentiable);
void copy_inputs(const std::vector<torch::Tensor>& own, const std::vector<torch::Tensor>& from);

/// The parameters that require gradients.
std::vector<torch::Tensor> trained(const torch::nn::Module& module);

/// What a pass's gradients are for: the inputs that require some, then the parameters.
std::vector<torch::Tensor> leaves_of(const std::vector<torch::Tensor>& inputs,
                                     const std::vector<torch::Tensor>& parameters);

/// Those for `leaves` of value·along; undefined where it does not depend on one.
std::vector<torch::Tensor> gradients_of(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& leaves,
                                        const torch::Tensor& along);

}  // namespace deq
