#include <gtest/gtest.h>

#include <limits>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// f returns NaN or infinity at some evaluation, for one sample or for all.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kNonFiniteBatch = 3, kDim = 8, kVictim = 1;

struct NonFiniteCase {
  SolverOptions options;
  double value;
};

void PrintTo(const NonFiniteCase& c, std::ostream* out) {
  *out << solver_name(c.options) << ", " << c.value;
}

std::vector<NonFiniteCase> non_finite_cases() {
  std::vector<NonFiniteCase> result;
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    for (const auto& options : test::every_solver({.rtol = 1e-13}, 400)) {
      result.push_back({options, value});
    }
    result.push_back(
        {Broyden{.line_search = true, .tol = {.rtol = 1e-13}, .max_evals = 400}, value});
  }
  return result;
}

class NonFinite : public test::SeededWith<NonFiniteCase> {
 protected:
  NonFinite()
      : problem_(test::tanh_problem(kNonFiniteBatch, kDim, 0.8, generator_)),
        start_(problem_.z_star + 0.1 * torch::randn({kNonFiniteBatch, kDim}, generator_, f64())) {}

  /// The map, spoilt from its `from`-th evaluation on: rows [first, first + count).
  Map spoilt(int64_t from, int64_t first, int64_t count) const {
    return [=, this, calls = std::make_shared<int64_t>(0)](const torch::Tensor& z) {
      EXPECT_TRUE(torch::isfinite(z).all().item<bool>()) << "f was asked at a non-finite point";
      auto value = problem_.map(z);
      if (++*calls >= from) value.narrow(0, first, count).fill_(GetParam().value);
      return value;
    };
  }
  Solution solve(const Map& f) const { return Solver(GetParam().options).solve({.f = f}, start_); }
  /// The best iterate was kept, and its residual is the one reported.
  void expect_best_kept(const Solution& solution, int64_t sample, int64_t from) const {
    const auto& report = solution.report.samples[static_cast<size_t>(sample)];
    if (from == 1) {
      EXPECT_TRUE(solution.z[sample].equal(start_[sample]));
      return;
    }
    const double clean = test::residuals(problem_.map, solution.z).absolute[sample].item<double>();
    EXPECT_NEAR(report.absolute, clean, 1e-13 * clean);
    const double start = test::residuals(problem_.map, start_).relative[sample].item<double>();
    EXPECT_LE(report.relative, start * (1 + 1e-13));
  }

  test::TanhProblem problem_;
  torch::Tensor start_;
};

TEST_P(NonFinite, OneSampleFailsAloneAtEveryStep) {
  const auto clean = solve(problem_.map);
  ASSERT_TRUE(clean.report.converged()) << clean.report.brief();
  for (int64_t from = 1; from <= 8; ++from) {
    SCOPED_TRACE("from evaluation " + std::to_string(from));
    const auto solution = solve(spoilt(from, kVictim, 1));
    EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
    EXPECT_EQ(solution.report.status, Status::NonFinite);
    for (int64_t b = 0; b < kNonFiniteBatch; ++b) {
      const auto& sample = solution.report.samples[static_cast<size_t>(b)];
      if (b == kVictim) {
        EXPECT_EQ(sample.status, Status::NonFinite);
        expect_best_kept(solution, b, from);
      } else {
        EXPECT_EQ(sample.status, Status::Converged);
        EXPECT_TRUE(solution.z[b].equal(clean.z[b])) << "sample " << b;
      }
    }
  }
}

TEST_P(NonFinite, AllSamplesFailAtEveryStep) {
  for (int64_t from = 1; from <= 8; ++from) {
    SCOPED_TRACE("from evaluation " + std::to_string(from));
    const auto solution = solve(spoilt(from, 0, kNonFiniteBatch));
    EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
    EXPECT_EQ(solution.report.count(Status::NonFinite), kNonFiniteBatch) << solution.report.brief();
    for (int64_t b = 0; b < kNonFiniteBatch; ++b) expect_best_kept(solution, b, from);
    EXPECT_LT(solution.report.evaluations, 60) << "it went on without hope";
  }
}

TEST_P(NonFinite, OneBadNumberIsEnough) {
  const auto solution = solve([this, calls = 0](const torch::Tensor& z) mutable {
    auto value = problem_.map(z);
    if (++calls >= 3) value.index_put_({kVictim, kDim - 1}, GetParam().value);
    return value;
  });
  EXPECT_EQ(solution.report.samples[kVictim].status, Status::NonFinite);
  EXPECT_EQ(solution.report.count(Status::Converged), kNonFiniteBatch - 1);
}

TEST_P(NonFinite, WholeBatchNormFailsTheBatch) {
  const auto options =
      with_tolerance(GetParam().options, {.rtol = 1e-13, .scope = NormScope::WholeBatch});
  const auto solution = Solver(options).solve({.f = spoilt(3, kVictim, 1)}, start_);
  EXPECT_EQ(solution.report.count(Status::NonFinite), kNonFiniteBatch);
  EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
}

std::string non_finite_case_name(const ::testing::TestParamInfo<NonFiniteCase>& info) {
  const auto* broyden = std::get_if<Broyden>(&info.param.options);
  const bool search = broyden != nullptr && broyden->line_search;
  const double value = info.param.value;
  return test::test_name(info.param.options) + (search ? "LineSearch" : "") +
         (value != value ? "NaN"
          : value > 0    ? "Inf"
                         : "MinusInf");
}

INSTANTIATE_TEST_SUITE_P(EverySolver, NonFinite, ::testing::ValuesIn(non_finite_cases()),
                         non_finite_case_name);

}  // namespace
}  // namespace deq
