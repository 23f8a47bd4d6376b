#include "solvers/broyden_inverse.h"

#include <gtest/gtest.h>

#include <set>

#include "support/dense_broyden.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// The inverse that a forward solve by Broyden hands out, against one that was built densely.

namespace deq {
namespace {

using test::f64;

class BroydenInverseTest : public test::Seeded {
 protected:
  torch::Tensor draw(int64_t batch, int64_t dim) {
    return torch::randn({batch, dim}, generator_, f64());
  }

  static Solution solved(const Broyden& options, const Map& f, const torch::Tensor& start) {
    return Solver(options).solve({.f = f, .keeps_inverse = true}, start);
  }

  /// −g H of one sample, for the dense method with the same options.
  static torch::Tensor dense_product(const Map& f, const torch::Tensor& start,
                                     const Broyden& options, const torch::Tensor& g) {
    return -g.mm(test::dense_broyden(f, start[0], options).inverse);
  }
};

TEST_F(BroydenInverseTest, IsTheDenseOneAtEveryBudget) {
  const auto problem = test::tanh_problem(1, 12, 1.2, generator_);
  const auto start = problem.z_star + 0.2 * draw(1, 12), g = draw(1, 12);
  for (int64_t budget = 1; budget <= 16; ++budget) {
    const Broyden options{.tol = {.rtol = 0}, .max_evals = budget};
    const auto product = solved(options, problem.map, start).inverse->left_product(g);
    EXPECT_LT(test::relative_difference(product, dense_product(problem.map, start, options, g)),
              1e-8)
        << "budget " << budget;
    EXPECT_EQ(product.equal(g), budget <= 2) << "the first update needs two steps";
  }
}

TEST_F(BroydenInverseTest, KnowsShortenedSteps) {
  // Picard overshoots everywhere: the slope of f − z is far below −1.
  const test::TanhMap map{-6 * torch::eye(6, f64()) + test::matrix_with_radius(6, 2.0, generator_),
                          draw(1, 6)};
  const auto start = draw(1, 6), g = draw(1, 6);
  int64_t shortened = 0;
  for (int64_t budget = 2; budget <= 18; ++budget) {
    const Broyden options{.line_search = true, .tol = {.rtol = 0}, .max_evals = budget};
    const auto solution = solved(options, map, start);
    EXPECT_LT(test::relative_difference(solution.inverse->left_product(g),
                                        dense_product(map, start, options, g)),
              1e-7)
        << "budget " << budget;
    shortened = solution.report.step_rejections;
  }
  EXPECT_GT(shortened, 2);
}

TEST_F(BroydenInverseTest, AFullHistoryStartsAnew) {
  const auto problem = test::tanh_problem(1, 9, 0.9, generator_);
  const auto start = problem.z_star + 0.2 * draw(1, 9), g = draw(1, 9);
  for (int64_t budget = 4; budget <= 13; ++budget) {
    const Broyden options{.memory = 4, .tol = {.rtol = 0}, .max_evals = budget};
    EXPECT_LT(
        test::relative_difference(solved(options, problem.map, start).inverse->left_product(g),
                                  dense_product(problem.map, start, options, g)),
        1e-8)
        << "budget " << budget;
  }
}

/// Samples that need from a few to many evaluations.
TEST_F(BroydenInverseTest, ASampleThatStoppedEarlyKeepsItsOwnSteps) {
  const auto scales = torch::tensor({0.1, 0.9, 0.4}, f64()).view({3, 1, 1});
  const test::AffineMap map{scales * test::matrix_with_radius(5, 1.0, generator_), draw(3, 5)};
  const auto start = draw(3, 5), g = draw(3, 5);
  const Broyden options{.tol = {.rtol = 1e-5}, .max_evals = 60};
  const auto solution = solved(options, map, start);
  ASSERT_TRUE(solution.report.converged()) << solution.report.brief();
  const auto product = solution.inverse->left_product(g);
  std::set<int64_t> stops;
  for (int64_t b = 0; b < 3; ++b) {
    const test::AffineMap alone{map.a[b], map.b.narrow(0, b, 1)};
    auto own = options;
    own.max_evals = solution.report.samples[static_cast<size_t>(b)].evaluations;
    stops.insert(own.max_evals);
    const auto expected = dense_product(alone, start.narrow(0, b, 1), own, g.narrow(0, b, 1));
    EXPECT_LT(test::relative_difference(product.narrow(0, b, 1), expected), 1e-7) << "sample " << b;
  }
  EXPECT_GT(stops.size(), 1U);
}

TEST_F(BroydenInverseTest, OneNumberIsInvertedExactly) {
  const auto slopes = torch::tensor({0.5, -3.0, 0.9}, f64()).view({3, 1, 1});
  const test::AffineMap map{slopes, draw(3, 1)};
  const auto solution = solved({.tol = {.rtol = 1e-13}}, map, draw(3, 1));
  ASSERT_TRUE(solution.report.converged()) << solution.report.brief();
  const auto g = draw(3, 1);
  EXPECT_LT(
      test::relative_difference(solution.inverse->left_product(g), g / (1 - slopes.view({3, 1}))),
      1e-12);
}

TEST_F(BroydenInverseTest, ABreakdownForgetsWhatCameBeforeIt) {
  // g is constant: y = 0, and no secant condition can be met. The second sample is as if alone.
  const Map f = [](const torch::Tensor& z) {
    return torch::cat({z.narrow(0, 0, 1) + 1, torch::tanh(0.7 * z.narrow(0, 1, 1).roll(1, 1)) + 1});
  };
  const Broyden options{.tol = {.rtol = 0}, .max_evals = 7};
  const auto start = draw(2, 4), g = draw(2, 4);
  const auto solution = solved(options, f, start);
  EXPECT_GT(solution.report.restarts, 0);
  const auto product = solution.inverse->left_product(g);
  EXPECT_TRUE(product[0].equal(g[0]));
  const Map second = [](const torch::Tensor& z) { return torch::tanh(0.7 * z.roll(1, 1)) + 1; };
  EXPECT_LT(test::relative_difference(
                product.narrow(0, 1, 1),
                dense_product(second, start.narrow(0, 1, 1), options, g.narrow(0, 1, 1))),
            1e-8);
}

TEST_F(BroydenInverseTest, IsHandedOutByBroydenAloneAndOnlyWhereAskedFor) {
  const auto problem = test::tanh_problem(2, 4, 0.5, generator_);
  const auto start = torch::zeros({2, 4}, f64());
  for (const auto& options : test::every_solver({.rtol = 1e-6}, 30)) {
    const Solver solver(options);
    EXPECT_EQ(solver.solve({.f = problem.map}, start).inverse, nullptr);
    const auto asked = solver.solve({.f = problem.map, .keeps_inverse = true}, start);
    EXPECT_EQ(asked.inverse != nullptr, std::holds_alternative<Broyden>(options))
        << solver_name(options);
  }
}

TEST_F(BroydenInverseTest, OutlivesLaterSolvesAndThenGivesItsSlabsBack) {
  const auto problem = test::tanh_problem(3, 6, 0.9, generator_);
  const Solver solver(Broyden{.tol = {.rtol = 0}, .max_evals = 10});
  std::set<const void*> slabs;
  const auto solve = [&] {
    return solver.solve({.f = problem.map, .keeps_inverse = true}, draw(3, 6),
                        [&slabs](const Progress& progress) {
                          slabs.insert(progress.z.data_ptr());
                          return true;
                        });
  };
  const auto g = draw(3, 6);
  {
    const auto kept = solve();
    const auto product = kept.inverse->left_product(g);
    for (int i = 0; i < 3; ++i) solve();
    EXPECT_TRUE(kept.inverse->left_product(g).equal(product));
  }
  slabs.clear();
  for (int i = 0; i < 3; ++i) solve().z.reset();
  const auto few = slabs.size();
  for (int i = 0; i < 30; ++i) solve().z.reset();
  // Of every solve the result alone belongs to its caller; freed, its memory may come back or not.
  EXPECT_LE(slabs.size(), few + 30);
}

}  // namespace
}  // namespace deq
