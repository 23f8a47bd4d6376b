#pragma once

#include <optional>

#include "deq/models/mdeq/segmentation_options.h"
#include "deq/models/mdeq/trunk.h"

namespace deq::models {

struct MdeqSegmentation {
  torch::Tensor logits;  ///< [B, classes, H, W]: scores of every pixel
  Equilibrated equilibrium;
};

/// Images [B, image_channels, H, W] of any size to the class scores of their pixels: stem,
/// equilibrium of all scales, and a head in which the scales, enlarged to the finest, meet.
/// Parameters and buffers have the names that the authors' checkpoints have.
class MdeqSegmenterImpl : public MdeqTrunk {
 public:
  explicit MdeqSegmenterImpl(const MdeqSegmenterOptions& options = {},
                             std::optional<at::Generator> generator = {});

  /// Images whose sides the scales do not divide get a border of zeros on the right and below,
  /// which their scores lose again.
  MdeqSegmentation forward(const torch::Tensor& images, const EquilibriumPlan& plan);

  /// [B, classes, h, w], as large as the finest scale.
  torch::Tensor segment(const State& z);

 private:
  torch::Tensor with_border(const torch::Tensor& images) const;

  torch::nn::Sequential head_;
};
TORCH_MODULE(MdeqSegmenter);

}  // namespace deq::models
