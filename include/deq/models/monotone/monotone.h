#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "deq/models/monotone/cell.h"
#include "deq/models/monotone/options.h"
#include "deq/nn/equilibrium.h"

namespace deq::models {

struct MonotoneOutput {
  torch::Tensor logits;      ///< [B, classes]
  State z;                   ///< the network's equilibrium, one image per tier
  Equilibrated equilibrium;  ///< of the splitting, whose state need not be z
};

/// Images [B, image_channels, image_size, image_size] to class scores: the equilibrium's coarsest
/// tier, averaged over squares of 4×4 where it is the only one, and a linear layer. Parameters have
/// the names that the authors' checkpoints have.
class MonotoneClassifierImpl : public torch::nn::Module {
 public:
  explicit MonotoneClassifierImpl(const MonotoneOptions& options = {},
                                  std::optional<at::Generator> generator = {});

  MonotoneOutput forward(const torch::Tensor& images, const EquilibriumPlan& plan,
                         const State& start = {});

  // The parts of forward().
  torch::Tensor inject(const torch::Tensor& images);  ///< the border added: the cell's input
  /// From `start`, the state of an equilibrium before, or else the cell's own.
  Equilibrated equilibrate(const torch::Tensor& injection, const EquilibriumPlan& plan,
                           const State& start = {});
  torch::Tensor classify(const State& z);

  MonotoneCell cell() const { return cell_; }
  const MonotoneOptions& options() const { return options_; }

 private:
  MonotoneOptions options_;
  MonotoneCell cell_;
  Equilibrium layer_;  // not in the module tree, where it would change the cell's name
  torch::nn::Linear head_;
};
TORCH_MODULE(MonotoneClassifier);

}  // namespace deq::models
