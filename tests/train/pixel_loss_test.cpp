#include "lab/tasks/pixel_loss.h"

#include <gtest/gtest.h>

#include "deq/lab/data/images/mask_decode.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

class Loss : public test::Seeded {
 protected:
  torch::Tensor logits_ = torch::randn({2, 3, 4, 5}, generator_, torch::kFloat64);
  torch::Tensor labels_ = torch::randint(3, {2, 4, 5}, generator_, torch::kInt64);
};

/// Pixel by pixel: Σ w log p / Σ w.
double mean_by_hand(const torch::Tensor& logits, const torch::Tensor& labels,
                    const std::vector<double>& weights) {
  const auto log_p = logits.log_softmax(1);
  double sum = 0, weight = 0;
  for (int64_t b = 0; b < labels.size(0); ++b) {
    for (int64_t y = 0; y < labels.size(1); ++y) {
      for (int64_t x = 0; x < labels.size(2); ++x) {
        const auto label = labels[b][y][x].item<int64_t>();
        if (label == kIgnoredLabel) continue;
        const auto w = weights[static_cast<size_t>(label)];
        sum -= w * log_p[b][label][y][x].item<double>();
        weight += w;
      }
    }
  }
  return sum / weight;
}

TEST_F(Loss, IsTheWeightedMeanOverThePixelsThatCount) {
  labels_.masked_fill_(torch::rand({2, 4, 5}, generator_).lt(0.4), kIgnoredLabel);
  const std::vector<double> weights{0.5, 2, 1.25};
  const auto bytes = labels_.to(torch::kUInt8);
  EXPECT_NEAR(pixel_loss(logits_, bytes, {}).mean().item<double>(),
              mean_by_hand(logits_, labels_, {1, 1, 1}), 1e-12);
  EXPECT_NEAR(
      pixel_loss(logits_, bytes, torch::tensor(weights, torch::kFloat64)).mean().item<double>(),
      mean_by_hand(logits_, labels_, weights), 1e-12);
}

TEST_F(Loss, IgnoredPixelsHaveNoGradient) {
  labels_[0].fill_(kIgnoredLabel);
  logits_.requires_grad_();
  pixel_loss(logits_, labels_, {}).mean().backward();
  EXPECT_EQ(logits_.grad()[0].abs().max().item<double>(), 0);
  EXPECT_GT(logits_.grad()[1].abs().max().item<double>(), 0);
}

TEST_F(Loss, IsZeroWhereNoPixelCounts) {
  labels_.fill_(kIgnoredLabel);
  logits_.requires_grad_();
  for (const auto& weights : {torch::Tensor(), torch::ones({3}, torch::kFloat64)}) {
    const auto loss = pixel_loss(logits_, labels_, weights).mean();
    EXPECT_EQ(loss.item<double>(), 0);
    loss.backward();
    EXPECT_EQ(logits_.grad().abs().max().item<double>(), 0);
  }
}

}  // namespace
}  // namespace deq::lab
