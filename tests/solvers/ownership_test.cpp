#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "deq/core/error.h"
#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// Who owns what: the caller's tensors, the solutions handed out, the memory kept between solves.

namespace deq {
namespace {

using test::f64;

class Ownership : public test::SeededWith<SolverOptions> {
 protected:
  Ownership() : problem_(test::tanh_problem(3, 6, 0.9, generator_)), solver_(GetParam()) {}
  torch::Tensor draw() { return torch::randn({3, 6}, generator_, f64()); }

  test::TanhProblem problem_;
  Solver solver_;
};

TEST_P(Ownership, TheStartIsNeverModified) {
  const auto start = draw();
  const auto copy = start.clone();
  const auto solution = solver_.solve({.f = problem_.map}, start);
  EXPECT_TRUE(start.equal(copy));
  EXPECT_NE(solution.z.data_ptr(), start.data_ptr());
  // Nor when it is returned as it is.
  const auto at_once =
      solver_.solve({.f = [](const torch::Tensor& z) { return z.clone(); }}, start);
  EXPECT_NE(at_once.z.data_ptr(), start.data_ptr());
}

TEST_P(Ownership, ANonContiguousStartIsReadByValue) {
  const auto start = torch::randn({6, 3}, generator_, f64()).t();
  const auto solution = solver_.solve({.f = problem_.map}, start);
  const auto expected = solver_.solve({.f = problem_.map}, start.contiguous());
  EXPECT_TRUE(solution.z.equal(expected.z));
}

TEST_P(Ownership, SolutionsAreNotOverwrittenByLaterSolves) {
  std::vector<torch::Tensor> handed_out, copies, views, view_copies;
  for (int i = 0; i < 20; ++i) {
    auto solution = solver_.solve({.f = problem_.map}, draw());
    if (i % 2 == 0) {
      handed_out.push_back(solution.z);
      copies.push_back(solution.z.clone());
    } else {
      views.push_back(solution.z.narrow(1, 1, 3));  // the solution itself is let go
      view_copies.push_back(views.back().clone());
    }
  }
  for (size_t i = 0; i < handed_out.size(); ++i) {
    EXPECT_TRUE(handed_out[i].equal(copies[i])) << i;
    EXPECT_TRUE(views[i].equal(view_copies[i])) << i;
  }
}

TEST_P(Ownership, IteratesKeptByACallbackStay) {
  std::vector<torch::Tensor> kept, copies;
  const auto keep = [&](const Progress& progress) {
    kept.push_back(progress.z);
    kept.push_back(progress.f);
    copies.push_back(progress.z.clone());
    copies.push_back(progress.f.clone());
    return true;
  };
  for (int i = 0; i < 3; ++i) solver_.solve({.f = problem_.map}, draw(), keep);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(copies[i])) << i;
}

TEST_P(Ownership, PastSolvesDoNotChangeTheNext) {
  const auto start = draw();
  const auto first = solver_.solve({.f = problem_.map}, start);
  solver_.solve({.f = problem_.map}, draw());
  solver_.solve({.f = [](const torch::Tensor& z) { return 0.5 * z + 1; }},
                torch::zeros({2, 9}, torch::kFloat32));  // another shape and type
  const auto again = solver_.solve({.f = problem_.map}, start);
  EXPECT_TRUE(again.z.equal(first.z));
  EXPECT_EQ(again.report.evaluations, first.report.evaluations);
}

TEST_P(Ownership, AThrowingMapLeavesTheSolverUsable) {
  const auto start = draw();
  const auto expected = solver_.solve({.f = problem_.map}, start);
  const Map faulty = [this, calls = 0](const torch::Tensor& z) mutable {
    if (++calls == 4) throw std::logic_error("from f");
    return problem_.map(z);
  };
  EXPECT_THROW(solver_.solve({.f = faulty}, start), std::logic_error);
  EXPECT_TRUE(solver_.solve({.f = problem_.map}, start).z.equal(expected.z));
}

TEST_P(Ownership, ThreadsShareASolver) {
  std::vector<torch::Tensor> starts, expected;
  for (int i = 0; i < 4; ++i) {
    starts.push_back(draw());
    expected.push_back(solver_.solve({.f = problem_.map}, starts.back()).z);
  }
  std::vector<int> wrong(starts.size(), 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < starts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 30; ++k) {
        const auto solution = solver_.solve({.f = problem_.map}, starts[i]);
        wrong[i] += solution.z.equal(expected[i]) ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST_P(Ownership, NoGraphIsBuilt) {
  auto map = problem_.map;
  map.w = map.w.clone().requires_grad_();
  const auto solution = solver_.solve({.f = map}, draw().requires_grad_());
  EXPECT_FALSE(solution.z.requires_grad());
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

TEST_P(Ownership, MemoryDoesNotGrow) {
  const auto start = torch::zeros({2, 4096}, f64());  // one slab is 16 pages
  const Map f = [](const torch::Tensor& z) { return 0.5 / (1 + z * z); };
  const auto solve = [&](int times) {
    for (int i = 0; i < times; ++i) solver_.solve({.f = f}, start);
  };
  solve(50);
  const int64_t before = resident_pages();
  solve(1000);
  // A slab leaked by each solve would be 16,000 pages.
  EXPECT_LT(resident_pages() - before, 1000);
}

TEST_P(Ownership, WrongImagesAndStartsAreRefused) {
  using ::testing::HasSubstr;
  const auto start = draw();
  const auto attempt = [&](const Map& f, const torch::Tensor& z0) {
    return [=, this] { solver_.solve({.f = f}, z0); };
  };
  const auto refused = [](const char* part) {
    return ::testing::ThrowsMessage<Error>(HasSubstr(part));
  };
  EXPECT_THAT(attempt([](const torch::Tensor& z) { return z.narrow(1, 0, 5); }, start),
              refused("shape [3, 5] for a state of shape [3, 6]"));
  EXPECT_THAT(attempt([](const torch::Tensor& z) { return z.to(torch::kFloat32); }, start),
              refused("f returned Float for a state of type Double"));
  EXPECT_THAT(attempt(problem_.map, torch::zeros({3, 6}, torch::kInt64)),
              refused("must be float32 or float64, got Long"));
  EXPECT_THAT(attempt(problem_.map, torch::zeros({3, 6}, torch::kBFloat16)),
              refused("must be float32 or float64"));
  EXPECT_THAT(attempt(problem_.map, torch::zeros({6}, f64())), refused("[B, D]"));
  EXPECT_THAT(attempt(problem_.map, torch::zeros({0, 6}, f64())), refused("B, D ≥ 1"));
  EXPECT_THAT(attempt(problem_.map, torch::zeros({3, 0}, f64())), refused("B, D ≥ 1"));
}

INSTANTIATE_TEST_SUITE_P(EverySolver, Ownership,
                         ::testing::ValuesIn(test::every_solver({.rtol = 1e-10}, 200)),
                         [](const auto& c) { return test::test_name(c.param); });

}  // namespace
}  // namespace deq
