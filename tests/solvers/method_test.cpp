#include "deq/solvers/method.h"

#include <gtest/gtest.h>

#include "support/maps.h"
#include "support/seed.h"

// A method of the user's own, run by the library's driver.

namespace deq {
namespace {

using test::f64;

/// Heavy-ball iteration: z ← z + g + ½ (z − z_old), on tensors of its own.
class HeavyBall final : public Method {
 public:
  explicit HeavyBall(int* begun) : begun_(begun) {}
  void begin() override {
    ++*begun_;
    old_.reset();
  }
  void step(Iteration& it) override {
    auto next = it.z() + it.g();
    if (old_.defined()) next = next + 0.5 * (it.z() - old_);
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) next[b] = it.z()[b];
    }
    old_ = it.z();
    ++it.report().restarts;
    it.move_to(next);
  }

 private:
  int* begun_;
  torch::Tensor old_;
};

class MethodTest : public test::Seeded {};

TEST_F(MethodTest, TheDriverRunsAUsersMethod) {
  int begun = 0;
  const Solver solver([&] { return std::make_unique<HeavyBall>(&begun); },
                      Picard{.tol = {.rtol = 1e-10}, .max_evals = 200});
  // The damping that heavy balls give suits a slow map without rotation.
  const test::AffineMap map{test::matrix_with_eigenvalues({0.95, 0.8, 0.3, 0.1}, generator_),
                            torch::randn({3, 4}, generator_, f64())};
  for (int i = 1; i <= 2; ++i) {
    const auto solution = solver.solve({.f = map}, torch::zeros({3, 4}, f64()));
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    EXPECT_LT(test::relative_difference(solution.z, map.fixed_point()), 1e-8);
    EXPECT_EQ(solution.report.restarts, solution.report.evaluations - 1);
    EXPECT_EQ(begun, i);
  }
}

TEST_F(MethodTest, ItsOptionsAreValidated) {
  EXPECT_ANY_THROW(Solver([] { return std::unique_ptr<Method>(); }, Picard{.max_evals = 0}));
}

/// Looks at what the driver offers, and notes it.
class Observer final : public Method {
 public:
  explicit Observer(std::function<void(Iteration&)> look) : look_(std::move(look)) {}
  void begin() override {}
  void step(Iteration& it) override {
    look_(it);
    if (it.running()) it.move_to(it.f().clone());
  }

 private:
  std::function<void(Iteration&)> look_;
};

Solution observe(const Problem& problem, const torch::Tensor& start, int64_t max_evals,
                 const std::function<void(Iteration&)>& look) {
  return Solver([&] { return std::make_unique<Observer>(look); },
                Picard{.tol = {.rtol = 1e-13}, .max_evals = max_evals})
      .solve(problem, start);
}

TEST_F(MethodTest, TheIterationShowsTheCurrentIterate) {
  const auto problem = test::tanh_problem(2, 5, 0.7, generator_);
  observe({.f = problem.map}, torch::zeros({2, 5}, f64()), 6, [&](Iteration& it) {
    EXPECT_EQ(it.batch(), 2);
    EXPECT_EQ(it.dim(), 5);
    EXPECT_TRUE(it.f().equal(problem.map(it.z())));
    EXPECT_TRUE(it.g().equal(it.f() - it.z()));
    EXPECT_EQ(it.remaining(), 6 - it.report().evaluations);
    for (int64_t b = 0; b < 2; ++b) {
      const double norm = it.g()[b].norm().item<double>();
      EXPECT_TRUE(it.active(b));
      EXPECT_NEAR(it.residual(b), norm, 1e-14 * norm);
      EXPECT_NEAR(it.squared_norm(b), norm * norm, 1e-14 * norm * norm);
    }
    EXPECT_EQ(it.slab().sizes(), it.z().sizes());
    EXPECT_FALSE(it.jacobian_product(it.g()).defined());
  });
}

TEST_F(MethodTest, TheBestResidualIsTheSmallestNorm) {
  // ‖g‖ falls from 2 to 1 while ‖f‖ falls from 10 to 2: the relative residual grows, the norm does
  // not.
  std::vector<double> best;
  const Solver solver(
      [&] {
        return std::make_unique<Observer>([&](Iteration& it) {
          best.push_back(it.best_residual(0));
          if (it.remaining() > 1) it.move_to(torch::full({1, 1}, 1.0, f64()));
          best.push_back(it.best_residual(0));
        });
      },
      Picard{.tol = {.rtol = 1e-13}, .max_evals = 3});
  solver.solve({.f = [](const torch::Tensor& z) { return torch::where(z == 8, z + 2, z + 1); }},
               torch::full({1, 1}, 8.0, f64()));
  ASSERT_GE(best.size(), 2U);
  EXPECT_EQ(best[0], 2.0);
  EXPECT_EQ(best[1], 1.0);
}

TEST_F(MethodTest, ProbesAndProductsCountAsEvaluations) {
  const test::CountingMap f{[](const torch::Tensor& z) { return 0.5 * z + 1; }};
  int64_t products = 0;
  const Problem problem{.f = f,
                        .jacobian_product = [&](const torch::Tensor&, const torch::Tensor& v) {
                          ++products;
                          return 0.5 * v;
                        }};
  const auto solution = observe(problem, torch::zeros({2, 3}, f64()), 10, [](Iteration& it) {
    const auto at_zero = it.probe(torch::zeros({2, 3}, f64()));
    EXPECT_TRUE(at_zero.equal(torch::ones({2, 3}, f64())));
    if (it.running()) {
      EXPECT_TRUE(it.jacobian_product(at_zero).equal(0.5 * at_zero));
    }
  });
  EXPECT_EQ(solution.report.evaluations, 10);
  EXPECT_EQ(*f.calls + products, 10);
  EXPECT_EQ(solution.report.trace.size(), 4U);  // evaluations 1, 4, 7 and 10 were iterates
}

/// Keeps all iterates it made, and copies of them.
class Hoarder final : public Method {
 public:
  Hoarder(std::vector<torch::Tensor>* kept, std::vector<torch::Tensor>* copies)
      : kept_(kept), copies_(copies) {}
  void begin() override {}
  void step(Iteration& it) override {
    const auto next = it.f().clone();
    kept_->push_back(next);
    copies_->push_back(next.clone());
    it.move_to(next);
  }

 private:
  std::vector<torch::Tensor>*kept_, *copies_;
};

TEST_F(MethodTest, AMethodsOwnTensorsAreNotWrittenTo) {
  // For four evaluations both samples improve; then only the first does. The driver, which keeps
  // the best of each, must not mend one sample inside a tensor that the method still holds.
  std::vector<torch::Tensor> kept, copies;
  const Solver solver([&] { return std::make_unique<Hoarder>(&kept, &copies); },
                      Picard{.tol = {.rtol = 1e-12}, .max_evals = 12});
  solver.solve({.f =
                    [calls = 0](const torch::Tensor& z) mutable {
                      auto value = 0.5 * z + 1;
                      if (++calls > 4) value[1] += 1;
                      return value;
                    }},
               torch::zeros({2, 3}, f64()));
  ASSERT_GE(kept.size(), 8U);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(copies[i])) << "iterate " << i;
}

}  // namespace
}  // namespace deq
