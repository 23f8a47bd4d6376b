#include "deq/nn/weight_norm.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/core/error.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;
using test::relative_difference;

class WeightNorm : public test::Seeded {
 protected:
  torch::Tensor draw(c10::IntArrayRef shape) { return torch::randn(shape, generator_, f64()); }
};

TEST_F(WeightNorm, IsLengthTimesDirection) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{5, 3}, {4, 3, 2}, {6, 2, 3, 3}}) {
    const auto v = draw(shape).requires_grad_();
    std::vector<int64_t> lengths(shape.size(), 1);
    lengths[0] = shape[0];
    const auto g = draw(lengths).requires_grad_();
    const auto norms = v.flatten(1).square().sum(1).sqrt().view(lengths);
    EXPECT_LT(relative_difference(slice_norms(v), norms), 1e-14);
    const auto formula = g / norms * v;
    const auto weight = normalised_weight(v, g);
    EXPECT_LT(relative_difference(weight, formula), 1e-14);
    const auto u = draw(shape);
    const auto expected = torch::autograd::grad({(u * formula).sum()}, {v, g});
    const auto gradients = torch::autograd::grad({(u * weight).sum()}, {v, g});
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_LT(relative_difference(gradients[i], expected[i]), 1e-13) << i;
    }
  }
}

TEST_F(WeightNorm, AWeightBeginsAsItWas) {
  const auto initial = draw({4, 2, 3, 3});
  torch::nn::Module owner("owner");
  const LayerWeight normalised(owner, "weight", initial, true);
  const LayerWeight plain(owner, "other", initial, false);
  EXPECT_LT(relative_difference(normalised.value(), initial), 1e-14);
  EXPECT_TRUE(plain.value().equal(initial));
  const auto parameters = owner.named_parameters();
  EXPECT_EQ(parameters.keys(), (std::vector<std::string>{"weight_g", "weight_v", "other"}));
  EXPECT_EQ(parameters["weight_g"].sizes(), (std::vector<int64_t>{4, 1, 1, 1}));
  // It follows its parameters, also into another type.
  owner.to(torch::kFloat32);
  {
    const torch::NoGradGuard no_grad;
    parameters["weight_v"].mul_(3);  // a direction has no length
    parameters["weight_g"].mul_(2);
  }
  EXPECT_EQ(normalised.value().scalar_type(), torch::kFloat32);
  EXPECT_LT(relative_difference(normalised.value().to(torch::kFloat64), 2 * initial), 1e-6);
}

TEST_F(WeightNorm, AVectorHasNoSlices) {
  EXPECT_THROW(slice_norms(draw({3})), Error);
}

}  // namespace
}  // namespace deq
