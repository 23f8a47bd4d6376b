#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "deq/lab/settings/optimiser_options.h"

namespace deq::lab {

/// Steps parameters along their gradients with libtorch's fused kernels: one call for all of them,
/// and a state that is plain tensors, as a checkpoint wants it.
class Optimiser {
 public:
  using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

  Optimiser(const OptimiserOptions& options, const NamedParameters& parameters);

  /// One step at this learning rate. A parameter without a gradient stays as it is.
  void step(double lr);

  void zero_grad();

  /// The state's own tensors, e.g. "exp_avg/cell.w1": what is written into them counts.
  std::map<std::string, torch::Tensor> state() const;

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  struct Touched;  // the lists of a step: parameters that have a gradient, and their state
  Touched touched();

  OptimiserOptions options_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> first_, second_, steps_;  // momentum or exp_avg; exp_avg_sq; counters
};

/// The parameters of a model that are trained, of which there must be some.
Optimiser::NamedParameters trainable(const torch::nn::Module& model);

/// The Euclidean norm of all gradients together.
double gradient_norm(const std::vector<torch::Tensor>& parameters);

/// Scales all gradients by one factor.
void scale_gradients(const std::vector<torch::Tensor>& parameters, double factor);

}  // namespace deq::lab
