#include "deq/models/monotone/monotone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/functional/loss.h>

#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/jacobian/frobenius.h"
#include "monotone_dense.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;
using test::small_monotone;
using ::testing::UnorderedElementsAre;
using torch::Tensor;

const SolverOptions kMonotoneSolver = Picard{.tol = {.rtol = 1e-10}, .max_evals = 2000};
const EquilibriumOptions kMonotonePlan{.forward = kMonotoneSolver,
                                       .gradient = Implicit{.solver = kMonotoneSolver}};

class Monotone : public test::Seeded {
 protected:
  Tensor images(const MonotoneOptions& options, int64_t batch = 3) {
    return torch::randn({batch, options.image_channels, options.image_size, options.image_size},
                        generator_, f64());
  }
};

int64_t parameter_count(const MonotoneOptions& options) {
  int64_t count = 0;
  for (const auto& parameter : MonotoneClassifier(options)->parameters()) {
    count += parameter.numel();
  }
  return count;
}

TEST_F(Monotone, HasTheSizesThatTheAuthorsReport) {
  EXPECT_EQ(parameter_count({}), 172'218);
  MonotoneOptions tiers;
  tiers.channels = {16, 32, 60};
  EXPECT_EQ(parameter_count(tiers), 170'194);
  tiers.channels = {64, 128, 128};
  EXPECT_EQ(parameter_count(tiers), 1'014'546);
}

TEST_F(Monotone, HasTheNamesOfTheAuthorsCheckpoints) {
  EXPECT_THAT(MonotoneClassifier(small_monotone()[0])->named_parameters().keys(),
              UnorderedElementsAre("mon.linear_module.U.weight", "mon.linear_module.U.bias",
                                   "mon.linear_module.A.weight", "mon.linear_module.B.weight",
                                   "mon.linear_module.g", "mon.linear_module.h", "Wout.weight",
                                   "Wout.bias"));
  EXPECT_THAT(MonotoneClassifier(small_monotone()[1])->named_parameters().keys(),
              UnorderedElementsAre("mon.linear_module.U.weight", "mon.linear_module.U.bias",
                                   "mon.linear_module.A0.0.weight", "mon.linear_module.A0.1.weight",
                                   "mon.linear_module.B0.0.weight", "mon.linear_module.B0.1.weight",
                                   "mon.linear_module.A_n0.0.weight", "mon.linear_module.g.0",
                                   "mon.linear_module.g.1", "mon.linear_module.gn.0",
                                   "mon.linear_module.h.0", "mon.linear_module.h.1", "Wout.weight",
                                   "Wout.bias"));
}

TEST_F(Monotone, ScoresAreTheFormulas) {
  for (const auto& options : small_monotone()) {
    MonotoneClassifier net(options, generator_);
    net->to(torch::kFloat64);
    const auto x = images(options);
    const auto output = net->forward(x, kMonotonePlan);
    ASSERT_TRUE(output.equilibrium.report.converged()) << output.equilibrium.report.brief();
    const test::DenseMonotone dense(options, *net->cell());
    const auto z = dense.solution(torch::constant_pad_nd(x, {1, 1, 1, 1}));
    const auto side = options.tier_size(options.tiers() - 1);
    const auto last = options.channels.back() * side * side;
    auto features = z.narrow(1, z.size(1) - last, last).view({3, -1, side, side});
    if (options.tiers() == 1) {  // 7×7: one square of 4×4 and a rest that is left out
      features = features.narrow(2, 0, 4).narrow(3, 0, 4).mean(c10::IntArrayRef{2, 3});
    }
    const auto parameters = net->named_parameters();
    const auto logits =
        torch::addmm(parameters["Wout.bias"], features.flatten(1), parameters["Wout.weight"].t());
    EXPECT_LT(relative_difference(output.logits, logits), 1e-8);
  }
}

TEST_F(Monotone, LossAndJacobianPenaltyReachEveryParameter) {
  for (auto options : small_monotone()) {
    for (const auto splitting : {Splitting::PeacemanRachford, Splitting::ForwardBackward}) {
      options.splitting = splitting;
      options.alpha = 0.2;
      MonotoneClassifier net(options, generator_);
      net->to(torch::kFloat64);
      const auto output = net->forward(images(options), kMonotonePlan);
      const auto loss = torch::nn::functional::cross_entropy(output.logits, torch::arange(3) % 3) +
                        jacobian_penalty(output.equilibrium.linearization(), {}, generator_);
      loss.backward();
      EXPECT_TRUE(output.equilibrium.adjoint().converged());
      for (const auto& item : net->named_parameters()) {
        ASSERT_TRUE(item.value().grad().defined()) << item.key();
        EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
        EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
      }
    }
  }
}

TEST_F(Monotone, BFloat16IsCloseToFloat32) {
  const SolverOptions solver = Picard{.tol = {.rtol = 1e-5}, .max_evals = 200};
  const EquilibriumOptions plan{.forward = solver, .gradient = Implicit{.solver = solver}};
  for (const auto& options : small_monotone()) {
    MonotoneClassifier net(options, generator_);
    const auto x = images(options).to(torch::kFloat32);
    const auto weights = torch::randn({3, options.classes}, generator_);
    const auto run = [&](Precision precision) {
      const PrecisionScope scope(precision, torch::kCPU);
      const auto output = net->forward(x, plan);
      EXPECT_EQ(output.z.back().scalar_type(), torch::kFloat32);
      const auto logits = output.logits.to(torch::kFloat32);
      auto all = torch::autograd::grad({(weights * logits).sum()}, net->parameters());
      for (auto& gradient : all) gradient = gradient.flatten();
      return std::pair(logits.detach(), all);
    };
    const auto [logits, gradients] = run(Precision::Float32);
    const auto [rounded_logits, rounded] = run(Precision::BFloat16);
    EXPECT_LT(relative_difference(rounded_logits, logits), 0.02);
    for (const auto& gradient : rounded) EXPECT_TRUE(gradient.ne(0).any().item<bool>());
    // Eight bits, in sums that partly cancel.
    const auto cosine = torch::cosine_similarity(torch::cat(gradients), torch::cat(rounded), 0);
    EXPECT_GT(cosine.item<double>(), 0.99);
  }
}

TEST_F(Monotone, ImagesOfAnotherSizeAreRefused) {
  MonotoneClassifier net(small_monotone()[1]);
  try {
    net->forward(torch::zeros({1, 2, 8, 8}), kMonotonePlan);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "monotone: images of shape [1, 2, 8, 8], must be [B, 2, 6, 6], as image_size = 6 "
                 "says");
  }
}

}  // namespace
}  // namespace deq::models
