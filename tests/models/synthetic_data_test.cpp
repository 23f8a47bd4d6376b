#include "deq/lab/data/batches/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

class Synthetic : public test::Seeded {};

TEST_F(Synthetic, TargetIsThePapersFunction) {
  const auto h = [](double x) { return 1.5 * x * x * x + x * x - 5 * x + 2 * std::sin(x) - 3; };
  for (const double x : {-2.0, -1.0, 0.0, 0.5, 1.9}) {
    EXPECT_NEAR(lab::synthetic_target(torch::tensor(x, test::f64())).item<double>(), h(x), 1e-14);
  }
  // The values that Figure 9 marks, by hand: they settle the sign of the linear term.
  const auto marked = lab::synthetic_target(torch::tensor({-1.0, 0.5, 1.9}, test::f64()));
  EXPECT_NEAR(marked[0].item<double>(), -0.18294196961579301, 1e-14);
  EXPECT_NEAR(marked[1].item<double>(), -4.10364892279159400, 1e-14);
  EXPECT_NEAR(marked[2].item<double>(), 3.29110017537482770, 1e-13);
}

TEST_F(Synthetic, DrawsUniformInputsAndNormalNoise) {
  constexpr int64_t kSamples = 20000;
  constexpr double kNoise = 0.05;
  const auto set = lab::draw_synthetic(kSamples, -2, 2, kNoise, generator_);
  ASSERT_EQ(set.x.sizes(), (std::vector<int64_t>{kSamples, 1}));
  ASSERT_EQ(set.y.sizes(), set.x.sizes());
  const auto x = set.x.to(torch::kFloat64);
  EXPECT_GE(x.min().item<double>(), -2.0);
  EXPECT_LE(x.max().item<double>(), 2.0);
  // Five standard errors of the mean and variance of a uniform and a normal variable.
  const double n = std::sqrt(static_cast<double>(kSamples));
  EXPECT_NEAR(x.mean().item<double>(), 0.0, 5 * std::sqrt(4.0 / 3) / n);
  EXPECT_NEAR(x.var().item<double>(), 4.0 / 3, 5 * std::sqrt(16.0 / 5 - 16.0 / 9) / n);
  const auto noise = set.y.to(torch::kFloat64) - lab::synthetic_target(x);
  EXPECT_NEAR(noise.mean().item<double>(), 0.0, 5 * kNoise / n);
  EXPECT_NEAR(noise.var().item<double>(), kNoise * kNoise,
              5 * std::sqrt(2.0) * kNoise * kNoise / n);
  // Noise and input are independent.
  const double covariance = (noise * x).mean().item<double>();
  EXPECT_NEAR(covariance, 0.0, 5 * kNoise * std::sqrt(4.0 / 3) / n);
}

TEST_F(Synthetic, NoNoiseIsTheTargetItself) {
  const auto set = lab::draw_synthetic(50, 0, 1, 0.0, generator_);
  EXPECT_TRUE(set.y.equal(lab::synthetic_target(set.x)));
  EXPECT_GE(set.x.min().item<float>(), 0.0F);
  EXPECT_LE(set.x.max().item<float>(), 1.0F);
}

TEST_F(Synthetic, TheGeneratorDecides) {
  const auto draw = [](uint64_t stream) {
    return lab::draw_synthetic(10, -2, 2, 0.05, test::generator(stream));
  };
  EXPECT_TRUE(draw(1).x.equal(draw(1).x));
  EXPECT_TRUE(draw(1).y.equal(draw(1).y));
  EXPECT_FALSE(draw(1).x.equal(draw(2).x));
}

}  // namespace
}  // namespace deq::models
