#include "deq/solvers/learnt_mixing.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/solvers/solver.h"
#include "solvers/device_methods.h"
#include "support/maps.h"
#include "support/mixed_map.h"
#include "support/seed.h"

// Rules that choose Anderson's weights, the learnt one among them.

namespace deq {
namespace {

using test::f64;

struct Seen {
  std::vector<torch::Tensor> z, f;
  Solution solution;
};

Seen seen_by(const SolverOptions& options, const Map& f, const torch::Tensor& start) {
  Seen seen;
  seen.solution = Solver(options).solve({.f = f}, start, [&](const Progress& progress) {
    seen.z.push_back(progress.z.clone());
    seen.f.push_back(progress.f.clone());
    return true;
  });
  return seen;
}

/// One that has learnt something: its last layer is not zero.
LearntMixing some_mixing(const LearntMixingOptions& options, const at::Generator& generator) {
  LearntMixing mixing(options, generator);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : mixing->parameters()) parameter.normal_(0, 0.3, generator);
  return mixing;
}

/// Remembers what it is asked, and answers with what it was made of.
struct GivenWeights : MixingRule {
  int64_t memory() const override { return 3; }
  MixingWeights weights(const MixingHistory& history) override {
    asked.push_back({.gram = history.gram.clone(),
                     .length = history.length.clone(),
                     .alpha = history.alpha.clone(),
                     .beta = history.beta,
                     .step = history.step});
    return answer ? answer(history) : MixingWeights{history.alpha, torch::ones({2}, f64())};
  }

  std::function<MixingWeights(const MixingHistory&)> answer{};
  std::vector<MixingHistory> asked{};
};

class LearntMixingTest : public test::Seeded {};

TEST_F(LearntMixingTest, ANewOneIsAndersonToTheBit) {
  // Samples that stop for every reason, restarts among what happens to them.
  const auto map = test::mixed_map(5, generator_);
  int64_t restarts = 0;
  for (const double beta : {1.0, 0.7}) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto own = map.to(type);
      Anderson options{
          .memory = 4, .beta = beta, .restart_factor = 1.5, .tol = {.rtol = 1e-6}, .max_evals = 60};
      const auto plain = seen_by(options, own, torch::zeros_like(own.p));
      options.mixing = LearntMixing(LearntMixingOptions{.memory = 4}, generator_).ptr();
      const auto learnt = seen_by(options, own, torch::zeros_like(own.p));
      ASSERT_EQ(learnt.z.size(), plain.z.size());
      for (size_t k = 0; k < plain.z.size(); ++k) {
        EXPECT_TRUE(learnt.z[k].equal(plain.z[k])) << "iterate " << k << ", β = " << beta;
      }
      EXPECT_TRUE(learnt.solution.z.equal(plain.solution.z));
      restarts += learnt.solution.report.restarts;
    }
  }
  EXPECT_GT(restarts, 0);
}

TEST_F(LearntMixingTest, ARuleIsToldTheHistoryAndDecidesTheStep) {
  const auto problem = test::tanh_problem(2, 7, 0.9, generator_);
  const auto rule = std::make_shared<GivenWeights>();
  const auto beta = torch::tensor({0.3, 1.4}, f64());
  rule->answer = [beta](const MixingHistory& history) {
    // Half of each of the newest and the oldest.
    auto alpha = torch::zeros_like(history.alpha);
    const auto oldest = history.length[0].item<int64_t>() - 1;
    alpha.select(1, 0) += 0.5;
    alpha.select(1, oldest) += 0.5;
    return MixingWeights{.alpha = alpha, .beta = beta};
  };
  const Anderson options{.memory = 3,
                         .beta = 0.8,
                         .ridge = 1e-3,
                         .restart_factor = 1e9,
                         .mixing = rule,
                         .tol = {.rtol = 0},
                         .max_evals = 6};
  const auto seen = seen_by(options, problem.map, torch::zeros({2, 7}, f64()));
  ASSERT_EQ(seen.z.size(), 6U);
  ASSERT_EQ(rule->asked.size(), 5U);
  for (int64_t k = 0; k < 5; ++k) {
    SCOPED_TRACE(k);
    const auto& asked = rule->asked[static_cast<size_t>(k)];
    EXPECT_EQ(asked.step, k + 1);
    EXPECT_EQ(asked.beta, 0.8);
    const int64_t n = std::min<int64_t>(k + 1, 3);
    std::vector<torch::Tensor> z, g;  // the newest first
    for (int64_t age = 0; age < n; ++age) {
      const auto at = static_cast<size_t>(k - age);
      z.push_back(seen.z[at]);
      g.push_back(seen.f[at] - seen.z[at]);
    }
    EXPECT_TRUE((asked.length == n).all().item<bool>());
    const auto rows = torch::stack(g, 1);
    const auto gram = rows.bmm(rows.transpose(1, 2));
    EXPECT_LT(test::relative_difference(asked.gram.narrow(1, 0, n).narrow(2, 0, n), gram), 1e-12);
    EXPECT_EQ(asked.gram.narrow(1, n, 3 - n).abs().sum().item<double>(), 0);
    const auto ridge = 1e-3 * gram.diagonal(0, 1, 2).mean(1).view({2, 1, 1}) * torch::eye(n, f64());
    auto alpha = torch::linalg_solve(gram + ridge, torch::ones({2, n, 1}, f64())).squeeze(2);
    alpha = alpha / alpha.sum(1, true);
    EXPECT_LT(test::relative_difference(asked.alpha.narrow(1, 0, n), alpha), 1e-9);
    EXPECT_EQ(asked.alpha.narrow(1, n, 3 - n).abs().sum().item<double>(), 0);
    const auto step = beta.unsqueeze(1);
    const auto next = 0.5 * (z.front() + step * g.front() + z.back() + step * g.back());
    EXPECT_LT(test::relative_difference(seen.z[static_cast<size_t>(k + 1)], next), 1e-12);
  }
}

TEST_F(LearntMixingTest, WeightsSumToOneAndKnowNoUnit) {
  auto mixing = some_mixing({.memory = 5, .hidden = 9}, generator_);
  mixing->to(torch::kFloat64);
  const auto rows = torch::randn({4, 5, 8}, generator_, f64());
  const auto length = torch::tensor({1, 2, 4, 5}, torch::kLong);
  const auto known = (torch::arange(5) < length.unsqueeze(1)).to(torch::kFloat64);
  const auto gram = rows.bmm(rows.transpose(1, 2)) * known.unsqueeze(1) * known.unsqueeze(2);
  const MixingHistory history{
      .gram = gram, .length = length, .alpha = known / length.unsqueeze(1), .beta = 0.8, .step = 7};
  const auto weights = mixing->weights(history);
  EXPECT_LT((weights.alpha.sum(1) - 1).abs().max().item<double>(), 1e-14);
  EXPECT_EQ((weights.alpha * (1 - known)).abs().max().item<double>(), 0);
  EXPECT_EQ(weights.alpha[0][0].item<double>(), 1) << "of one residual";
  EXPECT_GT((weights.alpha - history.alpha)[3].abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(((weights.beta > 0) & (weights.beta < 1.6)).all().item<bool>());
  auto larger = history;
  larger.gram = 0x1p40 * gram;  // exact
  const auto same = mixing->weights(larger);
  EXPECT_LT((same.alpha - weights.alpha).abs().max().item<double>(), 1e-12);
  EXPECT_LT((same.beta - weights.beta).abs().max().item<double>(), 1e-12);
}

TEST_F(LearntMixingTest, OneServesStatesOfEverySize) {
  // The same residuals, with zeros beside them.
  const auto problem = test::tanh_problem(3, 6, 0.9, generator_);
  const Map wider = [&](const torch::Tensor& z) {
    return torch::constant_pad_nd(problem.map(z.narrow(1, 0, 6)), {0, 9});
  };
  const Anderson options{.memory = 4,
                         .mixing = some_mixing({.memory = 4}, generator_).ptr(),
                         .tol = {.rtol = 0},
                         .max_evals = 8};
  const auto small = Solver(options).solve({.f = problem.map}, torch::zeros({3, 6}, f64()));
  const auto large = Solver(options).solve({.f = wider}, torch::zeros({3, 15}, f64()));
  EXPECT_LT(test::relative_difference(large.z.narrow(1, 0, 6), small.z), 1e-6);
}

TEST_F(LearntMixingTest, AutocastLeavesItAlone) {
  const auto problem = test::tanh_problem(3, 6, 0.9, generator_);
  const Anderson options{.mixing = some_mixing({}, generator_).ptr(), .max_evals = 5};
  const auto start = torch::zeros({3, 6}, f64());
  const auto expected = Solver(options).solve({.f = problem.map}, start);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const auto solution = Solver(options).solve({.f = problem.map}, start);
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  EXPECT_TRUE(solution.z.equal(expected.z));
}

TEST_F(LearntMixingTest, TheHostDrivesItsSolves) {
  // The decisions of a solve on a device know no rules.
  EXPECT_NE(make_device_method(Anderson{}), nullptr);
  EXPECT_EQ(make_device_method(Anderson{.mixing = some_mixing({}, generator_).ptr()}), nullptr);
}

TEST_F(LearntMixingTest, OnAGpuItTakesTheSameSteps) {
  if (!cuda_status().available) GTEST_SKIP() << cuda_status().reason;
  const auto problem = test::tanh_problem(3, 40, 0.9, generator_);
  auto mixing = some_mixing({}, generator_);
  const Anderson options{.mixing = mixing.ptr(), .tol = {.rtol = 0}, .max_evals = 8};
  const auto start = torch::zeros({3, 40}, f64());
  const auto on_host = Solver(options).solve({.f = problem.map}, start);
  const test::TanhMap map{problem.map.w.cuda(), problem.map.x.cuda()};
  for (const auto& device : {torch::Device(torch::kCPU), torch::Device(torch::kCUDA)}) {
    mixing->to(device);
    const auto solution = Solver(options).solve({.f = map}, start.cuda());
    EXPECT_LT(test::relative_difference(solution.z.cpu(), on_host.z), 1e-5);
  }
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST_F(LearntMixingTest, RefusesWhatItWasNotMadeFor) {
  const auto mixing = LearntMixing(LearntMixingOptions{.memory = 5}, generator_).ptr();
  EXPECT_EQ(refusal([&] { Solver(Anderson{.memory = 3, .mixing = mixing}); }),
            "anderson: mixing was made for memory = 5, memory is 3");
  EXPECT_EQ(refusal([] { LearntMixing(LearntMixingOptions{.memory = 0}); }),
            "learnt mixing: memory = 0, must be ≥ 1");
  EXPECT_EQ(refusal([] { LearntMixing(LearntMixingOptions{.hidden = 0}); }),
            "learnt mixing: hidden = 0, must be ≥ 1");
  const auto rule = std::make_shared<GivenWeights>();
  rule->answer = [](const MixingHistory& history) {
    return MixingWeights{history.alpha.to(torch::kFloat32), torch::ones({2})};
  };
  const auto problem = test::tanh_problem(2, 7, 0.9, generator_);
  EXPECT_EQ(refusal([&] {
              Solver(Anderson{.memory = 3, .mixing = rule})
                  .solve({.f = problem.map}, torch::zeros({2, 7}, f64()));
            }),
            "a mixing rule returned [2, 3] of Float on cpu, must be [2, 3] of Double on the host");
}

}  // namespace
}  // namespace deq
