#pragma once

#include <torch/types.h>

namespace deq::lab {

/// The cross-entropy over the pixels that count, each weighted with its class.
struct PixelLoss {
  torch::Tensor sum;     ///< of the weighted losses, with its graph
  torch::Tensor weight;  ///< the sum of the weights

  /// 0 where no pixel counts.
  torch::Tensor mean() const;
};

/// From scores [B, classes, H, W] and labels [B, H, W], of which kIgnoredLabel does not count.
/// `class_weights` [classes] in the scores' type, or undefined: all are 1.
PixelLoss pixel_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                     const torch::Tensor& class_weights);

}  // namespace deq::lab
