#pragma once

#include <memory>
#include <optional>

#include "deq/models/mdeq/trunk.h"

namespace deq::models {

class MdeqHead;

struct MdeqOutput {
  torch::Tensor logits;  ///< [B, classes]
  Equilibrated equilibrium;
};

/// Images [B, image_channels, H, W] to class scores: stem, equilibrium of all scales, head. Scale 0
/// (H and W after `downsample_times` halvings) must divide by two once for every further scale.
/// Parameters and buffers have the names that the authors' checkpoints have.
class MdeqClassifierImpl : public MdeqTrunk {
 public:
  explicit MdeqClassifierImpl(const MdeqOptions& options = {},
                              std::optional<at::Generator> generator = {});

  /// inject(), equilibrate() and classify().
  MdeqOutput forward(const torch::Tensor& images, const EquilibriumPlan& plan,
                     const State& start = {});

  torch::Tensor classify(const State& z, Replay replay = Replay::Automatic);

 private:
  std::shared_ptr<MdeqHead> head_;
};
TORCH_MODULE(MdeqClassifier);

}  // namespace deq::models
