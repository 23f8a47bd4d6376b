#include "deq/nn/equilibrium.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/spectrum.h"
#include "support/cells.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;

constexpr int64_t kBatch = 3, kDim = 6;

class EquilibriumTest : public test::Seeded {
 protected:
  EquilibriumTest() : problem_(test::cell_problem(kBatch, kDim, 0.8, generator_)) {}

  Equilibrium layer(const GradientOptions& gradient = Implicit{}) const {
    return Equilibrium(problem_.cell, EquilibriumOptions{.forward = Anderson{.tol = {.rtol = 1e-10},
                                                                             .max_evals = 100},
                                                         .gradient = gradient});
  }
  int64_t steps() const { return problem_.cell->steps; }

  test::CellProblem problem_;
};

TEST_F(EquilibriumTest, FindsTheFixedPoint) {
  const auto eq = layer()->forward(problem_.x);
  EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
  EXPECT_LT(test::relative_difference(eq.z(), problem_.z_star), 1e-8);
  EXPECT_LE(eq.report.max_relative(), 1e-10);
}

TEST_F(EquilibriumTest, RegistersItsCell) {
  const auto parameters = layer()->named_parameters();
  EXPECT_TRUE(parameters.contains("cell.w"));
  EXPECT_TRUE(parameters.contains("cell.u"));
}

TEST_F(EquilibriumTest, PreparesOnceAndSpendsOneStepOnTheTape) {
  const auto eq = layer()->forward(problem_.x);
  EXPECT_EQ(problem_.cell->prepared, 1);
  EXPECT_EQ(steps(), eq.report.evaluations + 1);
  const auto& at = eq.linearization();
  EXPECT_EQ(&eq.linearization(), &at);
  EXPECT_EQ(steps(), eq.report.evaluations + 1) << "the linearisation shares that step";
  eq.z().sum().backward();
  EXPECT_EQ(steps(), eq.report.evaluations + 1) << "the adjoint needs products only";
}

TEST_F(EquilibriumTest, WithoutGradientTheTapeStepIsPaidOnDemand) {
  const torch::NoGradGuard no_grad;
  const auto eq = layer()->forward(problem_.x);
  EXPECT_EQ(steps(), eq.report.evaluations);
  const auto j = dense_jacobian(eq.linearization());
  EXPECT_EQ(steps(), eq.report.evaluations + 1);
  EXPECT_LT(test::relative_difference(j, problem_.jacobian()), 1e-8);
}

TEST_F(EquilibriumTest, LinearizationIsAtTheDetachedFixedPoint) {
  for (const GradientOptions& gradient :
       {GradientOptions(Implicit{}), GradientOptions(Phantom{}), GradientOptions(Truncated{}),
        GradientOptions(Unrolled{.steps = 60})}) {
    const auto eq = layer(gradient)->forward(problem_.x);
    const auto& at = eq.linearization();
    EXPECT_TRUE(at.z().is_leaf());
    EXPECT_LT(test::relative_difference(at.z(), problem_.z_star), 1e-5) << gradient_name(gradient);
    EXPECT_LT(test::relative_difference(dense_jacobian(at), problem_.jacobian()), 1e-4);
  }
}

TEST_F(EquilibriumTest, StartsWhereItIsTold) {
  const auto cold = layer()->forward(problem_.x);
  const auto warm = layer()->forward({problem_.x}, {.start = {problem_.z_star}});
  EXPECT_EQ(warm.report.evaluations, 1);
  EXPECT_GT(cold.report.evaluations, 1);
}

TEST_F(EquilibriumTest, AnotherSolverForOnePass) {
  int64_t seen = 0;
  const Solver picard(Picard{.tol = {.rtol = 0}, .max_evals = 7});
  auto eq = layer()->forward(
      {problem_.x}, {.solver = &picard, .callback = [&](const Progress&) { return ++seen < 5; }});
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(eq.report.evaluations, 5);
  EXPECT_EQ(eq.report.status, Status::UserStopped);
  EXPECT_TRUE(eq.z().requires_grad());
}

TEST_F(EquilibriumTest, AFailedSolveIsReportedNotThrown) {
  Equilibrium poor(problem_.cell,
                   EquilibriumOptions{.forward = Picard{.tol = {.rtol = 1e-12}, .max_evals = 2}});
  const auto eq = poor->forward(problem_.x);
  EXPECT_EQ(eq.report.status, Status::MaxEvaluations);
  eq.z().sum().backward();
  EXPECT_TRUE(problem_.cell->w.grad().isfinite().all().item<bool>());
}

TEST_F(EquilibriumTest, DefaultsSolveInFloat32) {
  test::TanhCell cell(problem_.cell->w.detach().to(torch::kFloat32),
                      problem_.cell->u.detach().to(torch::kFloat32));
  Equilibrium standard(cell);
  const auto eq = standard->forward(problem_.x.to(torch::kFloat32));
  EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
  eq.z().sum().backward();
  EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
}

TEST_F(EquilibriumTest, TheCallersTensorsStay) {
  const auto x = problem_.x.clone(), start = torch::zeros({kBatch, kDim}, f64());
  layer()->forward({x}, {.start = {start}});
  EXPECT_TRUE(x.equal(problem_.x));
  EXPECT_TRUE(start.equal(torch::zeros({kBatch, kDim}, f64())));
}

TEST_F(EquilibriumTest, OptionsAreValidatedAtConstruction) {
  EXPECT_THROW(Equilibrium(problem_.cell, EquilibriumOptions{.forward = Picard{.max_evals = 0}}),
               Error);
  EXPECT_THROW(Equilibrium(problem_.cell, EquilibriumOptions{.gradient = Phantom{.steps = 0}}),
               Error);
  EXPECT_THROW(
      Equilibrium(problem_.cell,
                  EquilibriumOptions{.gradient = Implicit{.solver = Broyden{.memory = 0}}}),
      Error);
}

TEST_F(EquilibriumTest, AnEmptyResultHasNoLinearization) {
  EXPECT_THROW(Equilibrated().linearization(), Error);
}

/// Any module with forward(z, x) is a cell.
struct PlainImpl : torch::nn::Module {
  PlainImpl() : linear(register_module("linear", torch::nn::Linear(2, 2))) {}
  torch::Tensor forward(const torch::Tensor& z, const torch::Tensor& x) {
    return 0.3 * torch::tanh(linear(z) + x);
  }
  torch::nn::Linear linear;
};
TORCH_MODULE(Plain);

TEST_F(EquilibriumTest, APlainModuleIsACell) {
  Plain module;
  module->to(torch::kFloat64);
  Equilibrium plain(module, EquilibriumOptions{.forward = Broyden{.tol = {.rtol = 1e-12}}});
  EXPECT_EQ(plain->parameters().size(), 2U);
  const auto x = torch::randn({5, 2}, generator_, f64());
  const auto eq = plain->forward(x);
  ASSERT_TRUE(eq.report.converged()) << eq.report.brief();
  EXPECT_LT(test::relative_difference(module->forward(eq.z(), x), eq.z()), 1e-11);
  eq.z().sum().backward();
  EXPECT_TRUE(module->linear->weight.grad().defined());
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

TEST_F(EquilibriumTest, MemoryDoesNotGrowOverTraining) {
  // A cycle in the graph would keep every pass alive: some 20 pages each.
  const auto wide = test::cell_problem(128, 16, 0.5, generator_);
  Equilibrium trained(wide.cell, EquilibriumOptions{.forward = Anderson{.max_evals = 12}});
  const auto train = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const auto eq = trained->forward(wide.x);
      (eq.z().square().mean() + eq.linearization().vjp(torch::ones_like(wide.x), true).mean())
          .backward();
      trained->zero_grad();
    }
  };
  train(50);
  const int64_t before = resident_pages();
  train(300);
  EXPECT_LT(resident_pages() - before, 1000);
}

TEST_F(EquilibriumTest, IsMeasuredInInferenceModeToo) {
  const auto radius = spectral_radius(layer()->forward(problem_.x).linearization()).mean();
  ASSERT_GT(radius, 0.1);
  Equilibrated made_there;
  for (const bool training : {false, true}) {
    auto made = layer();
    made->train(training);
    const c10::InferenceMode inference;
    made_there = made->forward(problem_.x.clone());
    EXPECT_NEAR(spectral_radius(made_there.linearization()).mean(), radius, 1e-4);
  }
  EXPECT_NEAR(spectral_radius(made_there.linearization()).mean(), radius, 1e-4);
}

TEST_F(EquilibriumTest, APassWithoutGradientsIsDifferentiatedWhole) {
  auto made = layer();
  made->eval();
  const auto penalty_gradients = [&](const Equilibrated& eq) {
    return torch::autograd::grad({jacobian_penalty(eq.linearization(), {}, ProbeKey{})},
                                 {problem_.cell->w, problem_.cell->u});
  };
  const auto expected = penalty_gradients(made->forward(problem_.x));
  const auto without = [&] {
    const torch::NoGradGuard no_grad;
    return made->forward(problem_.x);
  };
  const auto found = penalty_gradients(without());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LT(test::relative_difference(found[i], expected[i]), 1e-6) << i;
  }
  made->train();  // prepare() may draw: what that pass drew has no graph
  EXPECT_THROW(jacobian_penalty(without().linearization(), {}, ProbeKey{}), Error);
  EXPECT_GT(spectral_radius(without().linearization()).mean(), 0.1);
}

TEST_F(EquilibriumTest, AStateThatWasWrittenToIsNotLinearisedAt) {
  const torch::NoGradGuard no_grad;
  const auto eq = layer()->forward(problem_.x);
  eq.state[0].zero_();
  EXPECT_THROW(eq.linearization(), Error);
}

/// A cell with a clone, and a part that a clone's mode must not touch.
struct ClonedCell : Cell {
  ClonedCell()
      : w(register_parameter("w", torch::randn({4, 4}))),
        norm(register_module("norm", torch::nn::Dropout())) {}
  State initial_state(const Inputs& inputs) override { return {torch::zeros_like(inputs[0])}; }
  State step(const State& z, const Context& context) override {
    return {torch::tanh(0.1 * z[0].mm(w) + context[0])};
  }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/) const override {
    auto copy = std::make_shared<ClonedCell>();
    const torch::NoGradGuard constant;
    copy->w.copy_(w);
    return copy;
  }
  torch::Tensor w;
  torch::nn::Dropout norm;
};

struct ParentImpl : torch::nn::Cloneable<ParentImpl> {
  ParentImpl() { reset(); }
  void reset() override {
    layer = register_module("layer", Equilibrium(std::make_shared<ClonedCell>()));
  }
  Equilibrium layer{nullptr};
};

TEST_F(EquilibriumTest, IsClonedWithTheModuleThatHasIt) {
  const auto parent = std::make_shared<ParentImpl>();
  auto& cell = dynamic_cast<ClonedCell&>(*parent->layer->cell());
  cell.norm->eval();  // frozen, in a model that trains
  const auto copy = std::dynamic_pointer_cast<ParentImpl>(parent->clone());
  auto& copied = dynamic_cast<ClonedCell&>(*copy->layer->cell());
  EXPECT_TRUE(copied.w.equal(cell.w));
  EXPECT_FALSE(copied.w.is_same(cell.w));
  EXPECT_TRUE(copied.is_training());
  EXPECT_FALSE(copied.norm->is_training());
  EXPECT_TRUE(copy->parameters()[0].is_same(copied.w)) << "it is the one that is trained";
  const auto x = torch::randn({2, 4});
  EXPECT_TRUE(copy->layer->forward(x).z().equal(parent->layer->forward(x).z()));
}

}  // namespace
}  // namespace deq
