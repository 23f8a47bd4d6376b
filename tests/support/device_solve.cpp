#include "support/device_solve.h"

#include <gtest/gtest.h>

#include "solvers/device_solve.h"

namespace deq::test {
namespace {

/// Equal, where NaN equals itself.
bool same(double a, double b) {
  return a == b || (a != a && b != b);
}

void expect_same_samples(const Report& device, const Report& host) {
  ASSERT_EQ(device.samples.size(), host.samples.size());
  for (size_t b = 0; b < host.samples.size(); ++b) {
    const auto &own = device.samples[b], &expected = host.samples[b];
    EXPECT_EQ(own.status, expected.status) << "sample " << b << ": " << status_name(own.status)
                                           << ", not " << status_name(expected.status);
    EXPECT_EQ(own.evaluations, expected.evaluations) << "sample " << b;
    EXPECT_TRUE(same(own.absolute, expected.absolute))
        << "sample " << b << ": " << own.absolute << ", not " << expected.absolute;
    EXPECT_TRUE(same(own.relative, expected.relative)) << "sample " << b;
  }
}

void expect_same_traces(const Report& device, const Report& host) {
  ASSERT_EQ(device.trace.size(), host.trace.size());
  for (size_t i = 0; i < host.trace.size(); ++i) {
    const auto &own = device.trace[i], &expected = host.trace[i];
    EXPECT_EQ(own.evaluations, expected.evaluations) << "point " << i;
    EXPECT_EQ(own.active, expected.active) << "point " << i;
    EXPECT_TRUE(same(own.mean_absolute, expected.mean_absolute)) << "point " << i;
    EXPECT_TRUE(same(own.max_absolute, expected.max_absolute)) << "point " << i;
    EXPECT_TRUE(same(own.mean_relative, expected.mean_relative)) << "point " << i;
    EXPECT_TRUE(same(own.max_relative, expected.max_relative)) << "point " << i;
  }
}

void expect_same_inverse(const Solution& own, const Solution& host) {
  ASSERT_EQ(own.inverse != nullptr, host.inverse != nullptr);
  if (own.inverse == nullptr) return;
  const auto g = torch::linspace(-1, 1, own.z.numel(), own.z.options()).view_as(own.z);
  EXPECT_TRUE(torch::isclose(own.inverse->left_product(g), host.inverse->left_product(g), 0, 0,
                             /*equal_nan=*/true)
                  .all()
                  .item<bool>());
}

void expect_same_solution(const Solution& own, const Solution& host) {
  EXPECT_EQ(own.z.device(), host.z.device());
  EXPECT_TRUE(torch::isclose(own.z, host.z, 0, 0, /*equal_nan=*/true).all().item<bool>())
      << "largest difference " << (own.z - host.z).abs().max().item<double>();
  EXPECT_EQ(own.report.status, host.report.status);
  EXPECT_EQ(own.report.evaluations, host.report.evaluations);
  EXPECT_EQ(own.report.restarts, host.report.restarts);
  EXPECT_EQ(own.report.ridge_raises, host.report.ridge_raises);
  EXPECT_EQ(own.report.skipped_updates, host.report.skipped_updates);
  expect_same_samples(own.report, host.report);
  expect_same_traces(own.report, host.report);
  expect_same_inverse(own, host);
}

/// The same f on memory of its own, as a recorded one is.
Problem on_own_memory(const Map& f, const torch::Tensor& like) {
  const auto z = torch::empty_like(like), value = torch::empty_like(like);
  return {.f =
              [f, z, value](const torch::Tensor& at) {
                if (!at.is_same(z)) z.copy_(at);
                return value.copy_(f(z));
              },
          .z_buffer = z,
          .overwrites_results = true,
          .keeps_inverse = true};
}

}  // namespace

std::vector<SolverOptions> device_solvers(const Tolerance& tol, int64_t max_evals,
                                          const Guards& guards) {
  const auto anderson = [&](int64_t memory, double beta, double ridge, RidgeScale scale,
                            double restart_factor) {
    return Anderson{.memory = memory,
                    .beta = beta,
                    .ridge = ridge,
                    .ridge_scale = scale,
                    .restart_factor = restart_factor,
                    .tol = tol,
                    .max_evals = max_evals,
                    .guards = guards};
  };
  std::vector<SolverOptions> result{
      Picard{.tol = tol, .max_evals = max_evals, .guards = guards},
      Picard{.damping = 0.6, .tol = tol, .max_evals = max_evals, .guards = guards},
      anderson(6, 1.0, 1e-8, RidgeScale::Relative, 100.0),
      anderson(1, 0.7, 1e-8, RidgeScale::Relative, 100.0),
      anderson(3, 0.5, 1e-4, RidgeScale::Absolute, 1.5),
      anderson(16, 1.0, 0.0, RidgeScale::Relative, 100.0)};
  for (const int64_t memory : {60, 4, 1}) {
    result.push_back(
        Broyden{.memory = memory, .tol = tol, .max_evals = max_evals, .guards = guards});
  }
  for (const int64_t memory : {8, 2, 1}) {
    result.push_back(
        LimitedBroyden{.memory = memory, .tol = tol, .max_evals = max_evals, .guards = guards});
  }
  return result;
}

Solution expect_same_solve(const SolverOptions& options, const Map& f, const torch::Tensor& start) {
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(can_solve_on_device(options, start.device()));
  // A callback is called by the host.
  const auto by_host = [&](const Problem& problem) {
    return Solver(options).solve(problem, start, [](const Progress&) { return true; });
  };
  const auto by_device = [&](const Problem& problem) {
    SlabPool pool;
    pool.reset_like(start);
    return solve_on_device(problem, options, pool, start);
  };
  const Problem plain{.f = f, .keeps_inverse = true};
  const auto host = by_host(plain);
  EXPECT_EQ(host.z.device(), start.device());
  auto device = by_device(plain);
  expect_same_solution(device, host);
  expect_same_solution(by_host(on_own_memory(f, start)), host);
  expect_same_solution(by_device(on_own_memory(f, start)), host);
  const auto from_known = [image = f(start).clone()](Problem problem) {
    problem.f_of_start = image;
    return problem;
  };
  expect_same_solution(by_device(from_known(on_own_memory(f, start))), by_host(from_known(plain)));
  return device;
}

}  // namespace deq::test
