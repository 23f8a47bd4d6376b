#include "deq/nn/path_distance.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "support/cells.h"
#include "support/seed.h"

// Maps whose equilibria from other starts are known.

namespace deq {
namespace {

using test::f64;

/// f(z; x) = tanh(slope · z): for a slope above 1 it has an equilibrium on each side of zero.
struct SteepCell : Cell {
  explicit SteepCell(double how_steep) : slope(how_steep) {}
  State initial_state(const Inputs& x) override { return {x[0]}; }
  State step(const State& z, const Context&) override { return {torch::tanh(slope * z[0])}; }

  double slope;
};

Solver picard(int64_t max_evals = 200) {
  return Solver(Picard{.tol = {.rtol = 1e-12}, .max_evals = max_evals});
}

class PathDistance : public test::Seeded {};

TEST_F(PathDistance, IsZeroWhereThereIsOneEquilibrium) {
  const auto problem = test::cell_problem(5, 7, 0.7, generator_);
  const Solver solver(Broyden{.tol = {.rtol = 1e-12}, .max_evals = 100});
  Equilibrium layer(problem.cell, EquilibriumOptions{.forward = solver.options()});
  layer->eval();
  const torch::NoGradGuard no_grad;
  const auto distance = path_distance(layer->forward(problem.x), solver, generator_);
  ASSERT_EQ(distance.sizes(), (std::vector<int64_t>{5}));
  EXPECT_LT(distance.max().item<double>(), 1e-9);
}

TEST_F(PathDistance, SeesTheOtherEquilibrium) {
  // One number per sample: a random start leads to z* or to −z*, which is twice |z*| away.
  Equilibrium layer(std::make_shared<SteepCell>(3.0),
                    EquilibriumOptions{.forward = picard().options()});
  layer->eval();
  const torch::NoGradGuard no_grad;
  const auto eq = layer->forward(torch::ones({400, 1}, f64()));
  const auto distance = path_distance(eq, picard(), generator_);
  const auto near = distance < 1e-6, far = (distance - 2).abs() < 1e-6;
  EXPECT_TRUE((near | far).all().item<bool>());
  EXPECT_NEAR(far.sum().item<double>(), 200, 60) << "half of them, to six standard deviations";
}

TEST_F(PathDistance, TheOtherStartHasTheLengthOfTheEquilibrium) {
  // One evaluation gives the start back: ‖εn/√D − z*‖²/n² is 2 in the mean.
  Equilibrium layer(std::make_shared<SteepCell>(3.0),
                    EquilibriumOptions{.forward = picard().options()});
  layer->eval();
  const torch::NoGradGuard no_grad;
  const auto eq = layer->forward(torch::ones({8, 4000}, f64()));
  const auto distance = path_distance(eq, picard(/*max_evals=*/1), generator_);
  EXPECT_LT((distance - std::sqrt(2.0)).abs().max().item<double>(), 0.1);
}

TEST_F(PathDistance, OfAnEquilibriumAtZeroIsFinite) {
  Equilibrium layer(std::make_shared<SteepCell>(0.5),
                    EquilibriumOptions{.forward = picard().options()});
  layer->eval();
  const torch::NoGradGuard no_grad;
  const auto eq = layer->forward(torch::zeros({3, 4}, f64()));
  const Solver solver(Picard{.tol = {.atol = 1e-12}, .max_evals = 200});
  EXPECT_LT(path_distance(eq, solver, generator_).max().item<double>(), 1e-10);
}

TEST_F(PathDistance, TheGeneratorDecidesAndSeveralStateTensorsAreOne) {
  test::PairCell cell(5, generator_);
  Equilibrium layer(cell);
  layer->eval();
  const torch::NoGradGuard no_grad;
  const auto eq = layer->forward(torch::randn({3, 5}, generator_, f64()));
  const Solver hurried(Picard{.max_evals = 2});
  const auto draw = [&](uint64_t stream) {
    return path_distance(eq, hurried, test::generator(stream));
  };
  EXPECT_TRUE(draw(1).equal(draw(1)));
  EXPECT_FALSE(draw(1).equal(draw(2)));
}

TEST_F(PathDistance, LeavesALinearisationWithItsGraph) {
  const auto problem = test::cell_problem(2, 4, 0.7, generator_);
  Equilibrium layer(problem.cell);
  layer->eval();
  const auto eq = [&] {
    const torch::NoGradGuard no_grad;
    auto solved = layer->forward(problem.x);
    path_distance(solved, picard(), generator_);
    return solved;
  }();
  const auto product = eq.linearization().vjp(torch::ones({2, 4}, f64()), true);
  EXPECT_GT(torch::autograd::grad({product.sum()}, {problem.cell->w})[0].abs().max().item<double>(),
            0);
}

}  // namespace
}  // namespace deq
