#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <optional>

#include "deq/models/mdeq_cell.h"
#include "deq/models/mdeq_options.h"
#include "deq/nn/equilibrium.h"

namespace deq {

class MdeqHead;

struct MdeqOutput {
  torch::Tensor logits;  ///< [B, classes]
  Equilibrated equilibrium;
};

/// Images [B, image_channels, H, W] to class scores: stem, equilibrium of all scales, head. Scale 0
/// (H and W after `downsample_times` halvings) must divide by two once for every further scale.
/// Parameters and buffers have the names that the authors' checkpoints have.
class MdeqClassifierImpl : public torch::nn::Module {
 public:
  explicit MdeqClassifierImpl(const MdeqOptions& options = {},
                              std::optional<at::Generator> generator = {});

  MdeqOutput forward(const torch::Tensor& images, const EquilibriumPlan& plan);

  // The three parts of forward().
  torch::Tensor inject(const torch::Tensor& images);  ///< what scale 0 is given, the cell's input
  Equilibrated equilibrate(const torch::Tensor& injection, const EquilibriumPlan& plan);
  torch::Tensor classify(const State& z);

  MdeqCell cell() const { return cell_; }
  const MdeqOptions& options() const { return options_; }

 private:
  MdeqOptions options_;
  torch::nn::Sequential stem_;
  torch::nn::Sequential stage0_{nullptr};  // none in the smallest models
  MdeqCell cell_;
  Equilibrium layer_;  // not in the module tree, where it would change the cell's name
  std::shared_ptr<MdeqHead> head_;
};
TORCH_MODULE(MdeqClassifier);

}  // namespace deq
