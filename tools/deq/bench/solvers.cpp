#include <fmt/format.h>

#include <iostream>

#include "bench/measurements.h"
#include "bench/stopwatch.h"
#include "bench/traffic.h"
#include "deq/solvers/solver.h"
#include "lab/base/device.h"

namespace deq::lab::cli {

/// f(z) = a ⊙ z + x reads two numbers and writes one per entry: the rest is the solver's.
void bench_solvers(const BenchArguments& arguments) {
  const auto device = usable_device(arguments.device);
  const auto numbers = torch::TensorOptions(device).dtype(storage_type(arguments.precision));
  torch::manual_seed(0);
  const auto a = torch::rand({1, arguments.dim}, numbers).mul_(1.9).sub_(0.95);
  const auto x = torch::randn({arguments.batch, arguments.dim}, numbers);
  const auto start = torch::zeros_like(x);
  const Problem problem{.f = [&](const torch::Tensor& z) { return torch::addcmul(x, a, z); }};
  const auto ceilings = measure_ceilings(device, product_type(arguments.precision));
  nlohmann::ordered_json result{{"device", instructions_of(device)},
                                {"batch", arguments.batch},
                                {"dim", arguments.dim},
                                {"ceiling_bytes_per_s", ceilings.bytes}};
  std::cout << fmt::format("{} samples of {} numbers on {}; copies reach {:.0f} GB/s\n",
                           arguments.batch, arguments.dim, instructions_of(device),
                           1e-9 * ceilings.bytes);
  for (const std::string name : {"picard", "anderson", "broyden", "broyden-bfloat16"}) {
    const auto ms = [&](int64_t evaluations) {
      const Solver with(bench_solver(name, evaluations));
      return median_ms(device, arguments.repeats, [&] { with.solve(problem, start); });
    };
    const auto moved = [&](int64_t evaluations) {
      return bytes_moved([&] { Solver(bench_solver(name, evaluations)).solve(problem, start); });
    };
    const auto n = arguments.forward;
    const double whole = ms(n), step = (ms(2 * n) - whole) / static_cast<double>(n);
    const double bytes = (moved(2 * n) - moved(n)) / static_cast<double>(n);
    const double rate = bytes / (1e-3 * step);
    std::cout << fmt::format(
        "  {:16} {} evaluations {:9.3f} ms, one more {:9.3f} ms: {:.0f} MB, {:.0f} GB/s\n", name, n,
        whole, step, 1e-6 * bytes, 1e-9 * rate);
    result[name] = {{"evaluations", n},
                    {"ms", whole},
                    {"evaluation_ms", step},
                    {"evaluation_bytes", bytes},
                    {"bytes_per_s", rate}};
  }
  write_bench_json(result, arguments);
}

}  // namespace deq::lab::cli
