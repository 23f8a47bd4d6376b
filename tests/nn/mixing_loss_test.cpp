#include "deq/nn/mixing_loss.h"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/nn/equilibrium.h"
#include "deq/solvers/learnt_mixing.h"
#include "support/cells.h"
#include "support/counted_recorders.h"
#include "support/differences.h"
#include "support/seed.h"

// The loss of a learnt mixing against the solver's own iterates and finite differences, what it
// trains, and a layer that uses it.

namespace deq {
namespace {

using test::f64;

/// Its parameters are drawn, in float64.
LearntMixing drawn_mixing(const LearntMixingOptions& options, const at::Generator& generator,
                          double spread = 0.3) {
  LearntMixing mixing(options, generator);
  mixing->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : mixing->parameters()) parameter.normal_(0, spread, generator);
  return mixing;
}

class MixingLoss : public test::Seeded {
 protected:
  test::TanhProblem problem_ = test::tanh_problem(3, 6, 0.9, generator_);
  torch::Tensor start_ = torch::zeros({3, 6}, f64());
  LearntMixing mixing_ = drawn_mixing({.memory = 3, .hidden = 4}, generator_);
  Anderson solver_{.memory = 3,
                   .beta = 0.9,
                   .ridge = 1e-6,
                   .restart_factor = 1e9,
                   .mixing = mixing_.ptr(),
                   .tol = {.rtol = 0},
                   .max_evals = 6};
};

TEST_F(MixingLoss, IsTheDistanceOfTheSolversIterates) {
  for (const auto scale : {RidgeScale::Relative, RidgeScale::Absolute}) {
    solver_.ridge_scale = scale;
    double distances = 0;
    int64_t k = 0;
    Solver(solver_).solve({.f = problem_.map}, start_, [&](const Progress& progress) {
      const auto distance = (progress.z - problem_.z_star).norm(2, 1);
      distances += static_cast<double>(k++) *
                   (distance / (start_ - problem_.z_star).norm(2, 1)).mean().item<double>();
      return true;
    });
    const auto loss = mixing_loss(problem_.map, start_, problem_.z_star, solver_, 0);
    EXPECT_NEAR(loss.item<double>(), distances / (1 + 2 + 3 + 4 + 5), 1e-9);
  }
}

TEST_F(MixingLoss, GradientsAreThoseOfDifferences) {
  const auto loss = [&] {
    return mixing_loss(problem_.map, start_, problem_.z_star, solver_, 0.3);
  };
  loss().backward();
  for (const auto& parameter : mixing_->named_parameters()) {
    const auto expected =
        test::numeric_gradient([&] { return loss().item<double>(); }, parameter.value());
    EXPECT_GT(test::largest_entry(expected), 1e-4) << parameter.key();
    EXPECT_LT(test::largest_entry(parameter.value().grad() - expected),
              1e-8 * (1 + test::largest_entry(expected)))
        << parameter.key();
  }
}

TEST_F(MixingLoss, ClosenessCountsWhatIsLeftOfLeastSquares) {
  const auto loss = [&](double closeness) {
    return mixing_loss(problem_.map, start_, problem_.z_star, solver_, closeness).item<double>();
  };
  EXPECT_GT(loss(1), loss(0) + 1e-3);
  solver_.mixing = LearntMixing(LearntMixingOptions{.memory = 3}, generator_).ptr();
  EXPECT_EQ(loss(1), loss(0)) << "a new one keeps to least squares";
}

TEST_F(MixingLoss, GradientsReachTheMixingOnly) {
  for (auto* tensor : {&problem_.map.w, &problem_.map.x, &start_, &problem_.z_star}) {
    tensor->requires_grad_();
  }
  mixing_loss(problem_.map, start_, problem_.z_star, solver_).backward();
  for (const auto& tensor : {problem_.map.w, problem_.map.x, start_, problem_.z_star}) {
    EXPECT_FALSE(tensor.grad().defined());
  }
  for (const auto& parameter : mixing_->parameters()) {
    EXPECT_GT(test::largest_entry(parameter.grad()), 0);
  }
}

TEST_F(MixingLoss, AStartAtTheEquilibriumIsFinite) {
  const auto loss = mixing_loss(problem_.map, problem_.z_star, problem_.z_star, solver_);
  loss.backward();
  EXPECT_TRUE(loss.isfinite().item<bool>());
  for (const auto& parameter : mixing_->parameters()) {
    EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  }
}

/// tanh(z Wᵀ + x) for some samples; for the others the same value whatever z is, so that residuals
/// are exactly 0 from some iterate on, or now and then.
struct PartlyConstant {
  test::TanhMap map;
  torch::Tensor value, constant;  // [B, D], [B, 1]

  torch::Tensor operator()(const torch::Tensor& z) const {
    return torch::where(constant, value + 0 * z, map(z));
  }
};

TEST_F(MixingLoss, IsFiniteWhereSomeResidualsAreZero) {
  const auto f32 = torch::TensorOptions(torch::kFloat32);
  const int64_t batch = 6, dim = 6;
  const auto problem = test::tanh_problem(batch, dim, 0.9, generator_);
  PartlyConstant f{{problem.map.w.to(f32), problem.map.x.to(f32)},
                   torch::randn({batch, dim}, generator_, f32),
                   torch::tensor({true, true, true, false, false, false}).unsqueeze(1)};
  f.value[1].zero_();
  const auto z_star = torch::where(f.constant, f.value, problem.z_star.to(f32));
  auto start = torch::randn({batch, dim}, generator_, f32);
  start[0] = f.value[0];  // later iterates leave it by a rounding error
  start[1].zero_();       // those of a value of 0 never do
  auto mixing = drawn_mixing({.memory = 3, .hidden = 64}, generator_);  // not all are saturated
  mixing->to(torch::kFloat32);
  solver_.mixing = mixing.ptr();
  solver_.beta = 1;
  solver_.max_evals = 12;
  for (const double spread : {0.3, 0.0}) {
    // Where β stays 1, one step solves a constant sample.
    const torch::NoGradGuard no_grad;
    mixing->named_parameters()["correction.weight"][3].mul_(spread);
    mixing->named_parameters()["correction.bias"][3].mul_(spread);
    const auto gradients = [&] {
      const torch::AutoGradMode grad(true);
      const auto loss = mixing_loss(f, start, z_star, solver_);
      EXPECT_TRUE(std::isfinite(loss.item<double>())) << "spread " << spread;
      return torch::autograd::grad({loss}, mixing->parameters());
    }();
    for (const auto& gradient : gradients) {
      EXPECT_TRUE(torch::isfinite(gradient).all().item<bool>()) << "spread " << spread;
    }
  }
}

/// Problems of one kind: z = tanh(W z + x) with the same symmetric W, whose eigenvalues lie between
/// 0.1 and 0.95, and other x.
struct Family {
  explicit Family(at::Generator of) : generator(std::move(of)) {
    const auto q = test::orthogonal(16, generator);
    w = q.mm(torch::diag(torch::linspace(0.1, 0.95, 16, f64()))).mm(q.t());
  }
  test::TanhProblem draw(int64_t batch) {
    const test::TanhMap map{w, torch::randn({batch, 16}, generator, f64())};
    const Solver exact(Picard{.tol = {.rtol = 1e-13}, .max_evals = 2000});
    return {map, exact.solve({.f = map}, torch::zeros({batch, 16}, f64())).z};
  }
  at::Generator generator;
  torch::Tensor w{};
};

TEST_F(MixingLoss, TrainingLowersResidualsAndDistancesOfNewProblems) {
  for (const uint64_t stream : {1, 2, 3}) {
    SCOPED_TRACE(stream);
    Family family(test::generator(stream));
    const LearntMixing mixing(LearntMixingOptions{.memory = 4}, family.generator);
    Anderson solver{.memory = 4, .mixing = mixing.ptr(), .tol = {.rtol = 0}, .max_evals = 6};
    torch::optim::Adam optimiser(mixing->parameters(), torch::optim::AdamOptions(5e-3));
    for (int64_t step = 0; step < 200; ++step) {
      const auto [map, z_star] = family.draw(32);
      optimiser.zero_grad();
      mixing_loss(map, torch::zeros_like(z_star), z_star, solver).backward();
      optimiser.step();
    }
    const auto [map, z_star] = family.draw(256);
    const auto means = [&, &f = map, &goal = z_star](const Anderson& options) {
      const auto z = Solver(options).solve({.f = f}, torch::zeros_like(goal)).z;
      return std::pair(test::residuals(f, z).relative.mean().item<double>(),
                       ((z - goal).norm(2, 1) / goal.norm(2, 1)).mean().item<double>());
    };
    for (const int64_t evaluations : {4, 6}) {
      solver.max_evals = evaluations;
      auto plain = solver;
      plain.mixing = nullptr;
      const auto [residual, distance] = means(solver);
      const auto [plain_residual, plain_distance] = means(plain);
      EXPECT_LT(residual, 0.9 * plain_residual) << evaluations << " evaluations";
      EXPECT_LT(distance, 0.9 * plain_distance) << evaluations << " evaluations";
    }
  }
}

TEST_F(MixingLoss, ALayerServesItAndIsReplayed) {
  const auto problem = test::cell_problem(3, 6, 0.8, generator_);
  const auto mixing = drawn_mixing({.memory = 3}, generator_, /*spread=*/0.1);
  const Anderson solver{
      .memory = 3, .mixing = mixing.ptr(), .tol = {.rtol = 1e-11}, .max_evals = 100};
  const auto v = torch::randn({3, 6}, generator_, f64());
  const auto gradients = [&](Replay replay, bool& replayed) {
    Equilibrium layer(problem.cell, EquilibriumOptions{.forward = solver,
                                                       .gradient = Implicit{.solver = solver},
                                                       .replay = replay});
    std::vector<torch::Tensor> found;
    for (int pass = 0; pass < 3; ++pass) {
      const auto x = problem.x.detach().requires_grad_();
      const auto eq = layer->forward(x);
      EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
      found = torch::autograd::grad({(eq.z() * v).sum()}, {problem.cell->w, problem.cell->u, x});
      EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
      replayed = eq.replayed();
    }
    return found;
  };
  const test::CountedRecorders recorders;
  bool off = true, on = false;
  const auto evaluated = gradients(Replay::Off, off);
  const auto replayed = gradients(Replay::Checked, on);
  EXPECT_FALSE(off);
  EXPECT_TRUE(on);
  const auto expected = problem.pull_back(test::dense_adjoint(problem.jacobian(), v));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(test::relative_difference(evaluated[i], expected[i]), 1e-8) << i;
    EXPECT_LT(test::relative_difference(replayed[i], expected[i]), 1e-8) << i;
  }
}

TEST_F(MixingLoss, IsFiniteWhereResidualsDependOnEachOther) {
  solver_.ridge = 0;
  solver_.max_evals = 40;
  for (const auto scale : {RidgeScale::Relative, RidgeScale::Absolute}) {
    solver_.ridge_scale = scale;
    for (const auto& start : {start_, problem_.z_star}) {
      const auto loss = mixing_loss(problem_.map, start, problem_.z_star, solver_);
      EXPECT_TRUE(std::isfinite(loss.item<double>()));
      for (const auto& gradient : torch::autograd::grad({loss}, mixing_->parameters())) {
        EXPECT_TRUE(torch::isfinite(gradient).all().item<bool>());
      }
    }
  }
}

TEST_F(MixingLoss, RefusesWhatItCannotTrain) {
  const auto refusal = [&](const Anderson& solver, const torch::Tensor& z_star,
                           double closeness = 0) -> std::string {
    try {
      mixing_loss(problem_.map, start_, z_star, solver, closeness);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(Anderson{}, problem_.z_star),
            "mixing_loss: the solver has no mixing that could be trained");
  auto other = solver_;
  other.max_evals = 1;
  EXPECT_EQ(refusal(other, problem_.z_star),
            "mixing_loss: max_evals = 1, must be ≥ 2: the first evaluation is that of z0");
  other = solver_;
  other.memory = 4;
  EXPECT_EQ(refusal(other, problem_.z_star),
            "anderson: mixing was made for memory = 3, memory is 4");
  EXPECT_EQ(refusal(solver_, problem_.z_star, -1), "mixing_loss: closeness = -1, must be ≥ 0");
  EXPECT_EQ(refusal(solver_, problem_.z_star.narrow(0, 0, 2)),
            "mixing_loss: z0 is [3, 6] of type Double, but z* is [2, 6] of type Double");
  const auto loss = mixing_loss(problem_.map, start_, problem_.z_star, solver_);
  EXPECT_THROW(
      torch::autograd::grad({loss}, mixing_->parameters(), {}, true, /*create_graph=*/true), Error);
}

}  // namespace
}  // namespace deq
