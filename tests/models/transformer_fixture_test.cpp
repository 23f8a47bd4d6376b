#include "transformer_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/jacobian_products.h"
#include "models/gradient_checks.h"
#include "support/maps.h"
#include "support/seed.h"

// Parity with the reference implementations of the DEQ-Transformer and of Transformer-XL, in
// float64.

namespace deq::models {
namespace {

using test::relative_difference;

const SolverOptions kTransformerFixtureTight = Broyden{
    .memory = 200, .tol = {.rtol = 1e-14}, .max_evals = 400, .guards = {.stagnation_window = 60}};

const EquilibriumOptions kTransformerFixtureImplicit{
    .forward = kTransformerFixtureTight, .gradient = Implicit{.solver = kTransformerFixtureTight}};

class TransformerParity : public ::testing::TestWithParam<const char*> {
 protected:
  TransformerMemory memory() const {
    return {.capacity = fixture_["in.mem_z"].size(0),
            .z = fixture_.batch_first("in.mem_z"),
            .u = fixture_.batch_first("in.mem_u")};
  }
  TransformerOutput forward(const EquilibriumOptions& options) {
    return model_->forward(fixture_.batch_first("in.data"), fixture_.batch_first("in.target"),
                           memory(), options);
  }
  torch::Tensor loss(const EquilibriumOptions& options) { return forward(options).nll.mean(); }

  /// f around the file's z, with the graph down to all parameters.
  Linearization linearization() {
    const auto inputs =
        model_->cell_inputs(model_->inject(fixture_.batch_first("in.data")), memory());
    const State z{fixture_.state("in.z")};
    const auto layout = StateLayout::of(z);
    const auto slab = layout.pack(z).requires_grad_();
    const auto context = model_->cell()->prepare(inputs);
    return {slab, layout.pack(model_->cell()->step(layout.unpack(slab), context))};
  }

  test::TransformerFixture fixture_{GetParam()};
  DeqTransformer model_ = fixture_.model();
};

INSTANTIATE_TEST_SUITE_P(Fixtures, TransformerParity,
                         ::testing::Values("deq_transformer_post_ln", "deq_transformer_pre_ln"));

TEST_P(TransformerParity, HasThePublishedNamesAndNoOthers) {
  fixture_.expect_names(*model_, model_->tied());
}

TEST_P(TransformerParity, OneStep) {
  const auto at = linearization();
  const auto expected = fixture_.state("train.f");
  EXPECT_LT(relative_difference(products_of(at).f().view(expected.sizes()), expected), 1e-13);
}

TEST_P(TransformerParity, FixedPointCostsAndMemory) {
  const torch::NoGradGuard no_grad;
  const auto [nll, reading] = forward({.forward = kTransformerFixtureTight});
  const auto& report = reading.equilibrium.report;
  EXPECT_LT(report.max_relative(), 1e-12) << report.brief();
  EXPECT_LT(relative_difference(reading.equilibrium.z(), fixture_.state("train.zstar")), 1e-11);
  fixture_.expect_costs(nll, model_->options().cutoffs, 1e-11);
  EXPECT_LT(relative_difference(nll.mean(), fixture_["train.loss"]), 1e-12);
  EXPECT_LT(relative_difference(reading.memory.z, fixture_.batch_first("train.new_mem_z")), 1e-11);
  EXPECT_LT(relative_difference(reading.memory.u, fixture_.batch_first("train.new_mem_u")), 1e-14);
}

TEST_P(TransformerParity, ImplicitGradients) {
  loss(kTransformerFixtureImplicit).backward();
  fixture_.expect_gradients(*model_, model_->tied(), "train.grad.", 1e-9);
}

TEST_P(TransformerParity, ImplicitGradientsAreThoseOfTheUnrolledLoss) {
  test::expect_gradients_of_unrolled(
      *model_, [&](const EquilibriumOptions& how) { return loss(how); },
      kTransformerFixtureImplicit, 400);
}

TEST_P(TransformerParity, ImplicitGradientsMatchDifferences) {
  test::expect_gradients_of_differences(*model_, [&] { return loss(kTransformerFixtureImplicit); });
}

TEST_P(TransformerParity, VectorJacobianProduct) {
  const auto at = linearization();
  const auto product = at.vjp(fixture_.state("jac.v").reshape(at.z().sizes()));
  EXPECT_LT(relative_difference(product, fixture_.state("jac.vJ").reshape(at.z().sizes())), 1e-13);
}

TEST_P(TransformerParity, JacobianPenaltyAndItsGradients) {
  const auto at = linearization();
  const auto product =
      at.vjp(fixture_.state("jac.v").reshape(at.z().sizes()), /*differentiable=*/true);
  const auto penalty = product.square().mean();
  EXPECT_LT(relative_difference(penalty, fixture_["jac.penalty"]), 1e-13);
  penalty.backward();
  fixture_.expect_gradients(*model_, model_->tied(), "jac.grad.", 1e-12);
}

class TransformerXlParity : public ::testing::Test {
 protected:
  TransformerXlOutput forward() {
    TransformerXlMemory memory{.capacity = fixture_["in.mem.0"].size(0)};
    for (int64_t i = 0; i <= model_->options().layers; ++i) {
      memory.layers.push_back(fixture_.batch_first(fmt::format("in.mem.{}", i)));
    }
    return model_->forward(fixture_.batch_first("in.data"), fixture_.batch_first("in.target"),
                           memory);
  }

  test::TransformerFixture fixture_{"transformer_xl"};
  TransformerXL model_ = fixture_.xl_model();
};

TEST_F(TransformerXlParity, HasThePublishedNamesAndNoOthers) {
  fixture_.expect_names(*model_, model_->tied());
}

TEST_F(TransformerXlParity, CostsAndMemory) {
  const torch::NoGradGuard no_grad;
  const auto [nll, reading] = forward();
  fixture_.expect_costs(nll, model_->options().cutoffs, 1e-13);
  EXPECT_LT(relative_difference(nll.mean(), fixture_["train.loss"]), 1e-14);
  const auto& layers = reading.memory.layers;
  ASSERT_EQ(layers.size(), static_cast<size_t>(model_->options().layers) + 1);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto expected = fixture_.batch_first(fmt::format("train.new_mem.{}", i));
    EXPECT_LT(relative_difference(layers[i], expected), 1e-13) << "layer " << i;
  }
}

TEST_F(TransformerXlParity, Gradients) {
  forward().nll.mean().backward();
  fixture_.expect_gradients(*model_, model_->tied(), "train.grad.", 1e-12);
}

}  // namespace
}  // namespace deq::models
