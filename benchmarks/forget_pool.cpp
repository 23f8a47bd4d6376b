#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <chrono>
#include <string>
#include <vector>

#include "deq/core/cuda.h"
#include "kernels/recurrence/forget_pool.h"

// The pooling of a quasi-recurrent layer as one kernel, and as a loop of torch's operations over
// time. Both are measured in turn, so that `times_faster` is of one run; what is reported as time
// is that of both.

namespace {

using Pool = deq::kernels::ForgetPool (*)(const torch::Tensor&, const torch::Tensor&);
using Clock = std::chrono::steady_clock;

struct Subject {
  torch::Tensor y, start, g;
  bool back;

  /// Milliseconds of forward, or of backward alone.
  double milliseconds(Pool pool) const {
    const auto finish = [this] {
      if (y.is_cuda()) torch::cuda::synchronize();
    };
    auto begin = Clock::now();
    {
      const torch::AutoGradMode tape(back);
      const auto pooled = pool(y, start);
      if (back) {
        finish();
        begin = Clock::now();
        torch::autograd::grad({pooled.h}, {y, start}, {g});
      }
      finish();
    }
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
};

void pool(benchmark::State& state, torch::Device device, torch::ScalarType type, bool back) {
  const int64_t rows = state.range(0), positions = state.range(1), features = state.range(2);
  torch::manual_seed(0);
  const auto y = torch::randn({rows, positions, 3 * features}).to(device, type).requires_grad_();
  const auto start = torch::zeros({rows, features}, device).requires_grad_();
  const Subject subject{.y = y,
                        .start = start,
                        .g = torch::randn({rows, positions, features}).to(device, type),
                        .back = back};
  const auto own = [&] { return subject.milliseconds(deq::kernels::forget_pool); };
  const auto loop = [&] { return subject.milliseconds(deq::kernels::reference::forget_pool); };
  own();
  loop();
  double own_ms = 0, loop_ms = 0;
  for (auto _ : state) {
    own_ms += own();
    loop_ms += loop();
  }
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["kernel_ms"] = own_ms / rounds;
  state.counters["loop_ms"] = loop_ms / rounds;
  state.counters["times_faster"] = loop_ms / own_ms;
}

/// Batch, positions and features: of configs/books/awd-qrnn.toml, and of the published model.
const std::vector<std::vector<int64_t>> kShapes{{40, 140, 880}, {60, 140, 2500}};

void add(const std::string& name, torch::Device device, torch::ScalarType type) {
  for (const bool back : {false, true}) {
    const auto title = name + (back ? "/back" : "/forward");
    auto* added = benchmark::RegisterBenchmark(
        title.c_str(), [=](benchmark::State& state) { pool(state, device, type, back); });
    for (const auto& shape : kShapes) added->Args(shape);
    added->Unit(benchmark::kMillisecond)->UseRealTime();
  }
}

[[maybe_unused]] const bool kAdded = [] {
  add("forget_pool", torch::kCPU, torch::kFloat32);
  if (deq::cuda_status().available) {
    add("cuda/forget_pool", torch::kCUDA, torch::kFloat32);
    add("cuda/forget_pool_bfloat16", torch::kCUDA, torch::kBFloat16);
  }
  return true;
}();

}  // namespace
