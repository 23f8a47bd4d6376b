#include "lab/tasks/pixel_loss.h"

#include <torch/nn/functional/loss.h>

#include "deq/lab/data/images/mask_decode.h"

namespace deq::lab {

torch::Tensor PixelLoss::mean() const {
  // Without a pixel the sum is 0, and so is its gradient.
  return sum / weight.where(weight > 0, 1);
}

PixelLoss pixel_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                     const torch::Tensor& class_weights) {
  const auto classes = labels.to(torch::kInt64);
  const auto counted = labels.ne(kIgnoredLabel);
  const auto weight = class_weights.defined()
                          ? class_weights.index_select(0, classes.masked_select(counted)).sum()
                          : counted.sum().to(logits.scalar_type());
  return {
      .sum = torch::nn::functional::cross_entropy(logits, classes,
                                                  torch::nn::functional::CrossEntropyFuncOptions()
                                                      .weight(class_weights)
                                                      .ignore_index(kIgnoredLabel)
                                                      .reduction(torch::kSum)),
      .weight = weight};
}

}  // namespace deq::lab
