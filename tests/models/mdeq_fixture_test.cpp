#include "mdeq_fixture.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <set>

#include "models/gradient_checks.h"
#include "support/differences.h"
#include "support/maps.h"
#include "support/seed.h"

// Parity with the reference implementation of the multiscale DEQ, in float64. Reached: 10⁻¹⁵ for
// one step, its products with J and the penalty's gradients, 10⁻¹³ for the fixed point.

namespace deq::models {
namespace {

using test::relative_difference;

const SolverOptions kTight = Broyden{
    .memory = 200, .tol = {.rtol = 1e-14}, .max_evals = 400, .guards = {.stagnation_window = 60}};

const EquilibriumOptions kImplicit{.forward = kTight, .gradient = Implicit{.solver = kTight}};

class MdeqParity : public ::testing::Test {
 protected:
  Context context() { return model_->cell()->prepare({model_->inject(fixture_["in.image"])}); }

  MdeqOutput train_forward(const EquilibriumOptions& options) {
    model_->train();
    return model_->forward(fixture_["in.image"], options);
  }
  torch::Tensor train_loss(const EquilibriumOptions& options) {
    return torch::nn::functional::cross_entropy(train_forward(options).logits,
                                                fixture_["in.label"]);
  }

  /// f around the file's z, with the graph down to the images' parameters.
  Linearization linearization() {
    const auto z = fixture_.state("in.z");
    const auto layout = StateLayout::of(z);
    const auto slab = layout.pack(z).requires_grad_();
    return {slab, layout.pack(model_->cell()->step(layout.unpack(slab), context()))};
  }

  test::MdeqFixture fixture_;
  MdeqClassifier model_ = fixture_.model();
};

TEST_F(MdeqParity, HasThePublishedNamesAndNoOthers) {
  std::set<std::string> own;
  for (const auto& item : model_->named_parameters()) own.insert(item.key());
  for (const auto& item : model_->named_buffers()) {
    if (!test::counts_batches(item.key())) own.insert(item.key());
  }
  const auto published = fixture_.names("param.");
  EXPECT_EQ(own, std::set<std::string>(published.begin(), published.end()));
}

TEST_F(MdeqParity, Injection) {
  model_->eval();
  const auto injection = model_->inject(fixture_["in.image"]);
  EXPECT_LT(relative_difference(injection, fixture_["eval.injection"]), 1e-14);
}

TEST_F(MdeqParity, OneStep) {
  model_->eval();
  const auto f = model_->cell()->step(fixture_.state("in.z"), context());
  const auto expected = fixture_.state("eval.f");
  ASSERT_EQ(f.size(), expected.size());
  for (size_t i = 0; i < f.size(); ++i) {
    EXPECT_LT(relative_difference(f[i], expected[i]), 1e-13) << "scale " << i;
  }
}

TEST_F(MdeqParity, FixedPointAndLogits) {
  model_->eval();
  const torch::NoGradGuard no_grad;
  const auto [logits, equilibrium] =
      model_->forward(fixture_["in.image"], EquilibriumOptions{.forward = kTight});
  EXPECT_LT(equilibrium.report.max_relative(), 1e-12) << equilibrium.report.brief();
  const auto expected = fixture_.state("eval.zstar");
  ASSERT_EQ(equilibrium.state.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(relative_difference(equilibrium.state[i], expected[i]), 1e-11) << "scale " << i;
  }
  EXPECT_LT(relative_difference(logits, fixture_["eval.logits"]), 1e-11);
}

TEST_F(MdeqParity, TrainLoss) {
  const torch::NoGradGuard no_grad;
  EXPECT_LT(relative_difference(train_forward(kImplicit).logits, fixture_["train.logits"]), 1e-12);
  EXPECT_LT(relative_difference(train_loss(kImplicit), fixture_["train.loss"]), 1e-12);
}

TEST_F(MdeqParity, ImplicitGradients) {
  train_loss(kImplicit).backward();
  expect_gradients(*model_, fixture_, "train.grad.", 1e-9);
}

TEST_F(MdeqParity, ImplicitGradientsAreThoseOfTheUnrolledLoss) {
  test::expect_gradients_of_unrolled(
      *model_, [&](const EquilibriumOptions& how) { return train_loss(how); }, kImplicit, 300);
}

TEST_F(MdeqParity, ImplicitGradientsMatchDifferences) {
  test::expect_gradients_of_differences(*model_, [&] { return train_loss(kImplicit); });
}

TEST_F(MdeqParity, VectorJacobianProduct) {
  model_->train();
  const auto at = linearization();
  const auto product = at.vjp(fixture_["jac.v"].reshape(at.z().sizes()));
  EXPECT_LT(relative_difference(product, fixture_["jac.vJ"].reshape(at.z().sizes())), 1e-13);
}

TEST_F(MdeqParity, JacobianPenaltyAndItsGradients) {
  model_->train();
  const auto at = linearization();
  const auto product = at.vjp(fixture_["jac.v"].reshape(at.z().sizes()), /*differentiable=*/true);
  const auto penalty = product.square().mean();
  EXPECT_LT(relative_difference(penalty, fixture_["jac.penalty"]), 1e-13);
  penalty.backward();
  expect_gradients(*model_, fixture_, "jac.grad.", 1e-12);
}

}  // namespace
}  // namespace deq::models
