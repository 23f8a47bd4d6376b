#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "deq/solvers/solver.h"

// Whole solves on a cheap map, f(z) = a ⊙ z + x with |a| ≤ 0.95, with a tolerance that is never
// met: what is measured is the solver. benchmarks/compare_torchdeq.py runs the same problem with
// torchdeq.

namespace {

constexpr double kLargestFactor = 0.95;

void solve(benchmark::State& state, const deq::SolverOptions& options) {
  const int64_t batch = state.range(0), dim = state.range(1);
  torch::manual_seed(0);
  const auto a = torch::rand({1, dim}).mul_(2 * kLargestFactor).sub_(kLargestFactor);
  const auto x = torch::randn({batch, dim});
  const auto start = torch::zeros({batch, dim});
  const deq::Problem problem{.f = [&](const torch::Tensor& z) { return torch::addcmul(x, a, z); }};
  const deq::Solver solver(options);
  deq::Solution solution;
  for (auto _ : state) solution = solver.solve(problem, start);
  state.counters["evaluations"] = static_cast<double>(solution.report.evaluations);
  state.counters["relative_residual"] = solution.report.max_relative();
  state.counters["threads"] = torch::get_num_threads();
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64, 61440})->Unit(benchmark::kMillisecond)->UseRealTime();
}

// A step of torchdeq's Broyden is one evaluation, after one for the start.
BENCHMARK_CAPTURE(solve, picard, deq::Picard{.tol = {.rtol = 0}, .max_evals = 20})->Apply(shapes);
BENCHMARK_CAPTURE(solve, anderson, deq::Anderson{.tol = {.rtol = 0}, .max_evals = 20})
    ->Apply(shapes);
BENCHMARK_CAPTURE(solve, broyden, deq::Broyden{.tol = {.rtol = 0}, .max_evals = 21})->Apply(shapes);
BENCHMARK_CAPTURE(solve, limited_broyden, deq::LimitedBroyden{.tol = {.rtol = 0}, .max_evals = 21})
    ->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
