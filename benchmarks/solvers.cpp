#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <string>

#include "deq/core/cuda.h"
#include "deq/solvers/solver.h"

// Whole solves on a cheap map, f(z) = a ⊙ z + x with |a| ≤ 0.95, with a tolerance that is never
// met: what is measured is the solver. benchmarks/compare_torchdeq.py runs the same problem with
// torchdeq.
//
// Where there is a GPU, every solve is measured there in three ways: "cuda" never asks the device
// anything before its end, "cuda_asks" asks before each evaluation whether it is needed (the
// tolerance is met only by an exact fixed point), and "cuda_host" makes all decisions on the host.

namespace {

constexpr double kLargestFactor = 0.95;

void solve_on(benchmark::State& state, const deq::SolverOptions& options, torch::Device device,
              const deq::Callback& callback) {
  const int64_t batch = state.range(0), dim = state.range(1);
  torch::manual_seed(0);
  const auto a = torch::rand({1, dim}).mul_(2 * kLargestFactor).sub_(kLargestFactor).to(device);
  const auto x = torch::randn({batch, dim}).to(device);
  const auto start = torch::zeros({batch, dim}, device);
  const deq::Problem problem{.f = [&](const torch::Tensor& z) { return torch::addcmul(x, a, z); }};
  const deq::Solver solver(options);
  deq::Solution solution = solver.solve(problem, start, callback);
  for (auto _ : state) solution = solver.solve(problem, start, callback);
  state.counters["evaluations"] = static_cast<double>(solution.report.evaluations);
  state.counters["relative_residual"] = solution.report.max_relative();
  state.counters["threads"] = torch::get_num_threads();
}

void solve(benchmark::State& state, const deq::SolverOptions& options) {
  solve_on(state, options, torch::kCPU, {});
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64, 61440})->Unit(benchmark::kMillisecond)->UseRealTime();
}

// A step of torchdeq's Broyden is one evaluation, after one for the start.
const deq::Picard kPicard{.tol = {.rtol = 0}, .max_evals = 20};
const deq::Anderson kAnderson{.tol = {.rtol = 0}, .max_evals = 20};
const deq::Broyden kBroyden{.tol = {.rtol = 0}, .max_evals = 21};
const deq::LimitedBroyden kLimitedBroyden{.tol = {.rtol = 0}, .max_evals = 21};

BENCHMARK_CAPTURE(solve, picard, kPicard)->Apply(shapes);
BENCHMARK_CAPTURE(solve, anderson, kAnderson)->Apply(shapes);
BENCHMARK_CAPTURE(solve, broyden, kBroyden)->Apply(shapes);
BENCHMARK_CAPTURE(solve, limited_broyden, kLimitedBroyden)->Apply(shapes);

void register_on_gpu(const deq::SolverOptions& options) {
  const auto add = [](const std::string& way, const deq::SolverOptions& o,
                      const deq::Callback& callback) {
    const auto title = way + "/" + std::string(deq::solver_name(o));
    benchmark::RegisterBenchmark(title.c_str(), [o, callback](benchmark::State& state) {
      solve_on(state, o, torch::kCUDA, callback);
    })->Apply(shapes);
  };
  add("cuda", options, {});
  add("cuda_asks", deq::with_tolerance(options, {.atol = 1e-30, .rtol = 0}), {});
  add("cuda_host", options, [](const deq::Progress&) { return true; });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (deq::cuda_status().available) {
    register_on_gpu(kPicard);
    register_on_gpu(kAnderson);
    register_on_gpu(kBroyden);
  }
  benchmark::RunSpecifiedBenchmarks();
}
