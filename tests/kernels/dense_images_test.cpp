#include "kernels/images/dense_images.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "support/seed.h"

namespace deq::kernels {
namespace {

class DenseImagesTest : public test::Seeded {
 protected:
  /// Images in channels-last order that are a part of a slab.
  at::Tensor draw() {
    const auto slab = torch::randn({2, 60}, generator_, at::kFloat);
    return slab.narrow(1, 8, 30).view({2, 3, 2, 5}).permute({0, 3, 1, 2});
  }
};

TEST_F(DenseImagesTest, OfAnotherTypeAreDenseAndHaveAGradient) {
  const auto x = draw().requires_grad_();
  const auto y = dense_images(x, at::kDouble);
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(y.equal(x.to(at::kDouble)));
  const auto g = torch::randn(y.sizes(), generator_, at::kDouble);
  EXPECT_TRUE(torch::autograd::grad({y}, {x}, {g})[0].equal(g.to(at::kFloat)));
}

TEST_F(DenseImagesTest, OfTheirOwnTypeTheCpuTakesThemAsTheyLie) {
  const auto x = draw();
  EXPECT_TRUE(dense_images(x, at::kFloat).is_same(x));
}

}  // namespace
}  // namespace deq::kernels
