#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <optional>

#include "deq/models/mdeq/cell.h"
#include "deq/models/mdeq/options.h"
#include "deq/nn/equilibrium.h"

namespace deq {
class ReplayedFunction;
}

namespace deq::models {

/// What the multiscale DEQs for images have in common: the stem, and the equilibrium of all scales.
/// The heads are those of the classes derived from it.
class MdeqTrunk : public torch::nn::Module {
 public:
  /// What scale 0 is given, the cell's input.
  torch::Tensor inject(const torch::Tensor& images, Replay replay = Replay::Automatic);
  /// From `start`, such as the equilibrium of a similar picture, or else the cell's own.
  Equilibrated equilibrate(const torch::Tensor& injection, const EquilibriumPlan& plan,
                           const State& start = {});

  MdeqCell cell() const { return cell_; }
  const MdeqOptions& options() const { return options_; }

 protected:
  MdeqTrunk(const MdeqOptions& options, std::optional<at::Generator> generator);

  /// What a head is given must be one tensor per scale.
  void require_scales(const State& z) const;

 private:
  torch::Tensor stem(const torch::Tensor& images);

  MdeqOptions options_;
  torch::nn::Sequential stem_;
  torch::nn::Sequential stage0_{nullptr};  // none in the smallest models
  MdeqCell cell_;
  Equilibrium layer_;  // not in the module tree, where it would change the cell's name
  std::shared_ptr<ReplayedFunction> replayed_stem_;
};

}  // namespace deq::models
