#include "bench/stopwatch.h"

#include <ATen/Version.h>
#include <ATen/ops/matmul.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace deq::lab::cli {
namespace {

constexpr int64_t kWarmUps = 4;  // the first passes of a layer choose algorithms and record graphs

double once_ms(const torch::Device& device, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  wait_for(device);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return time.count();
}

}  // namespace

std::string instructions_of(const torch::Device& device) {
  return device.is_cpu() ? "cpu, " + at::get_cpu_capability() : device.str();
}

void wait_for(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

double median_ms(const torch::Device& device, int64_t repeats, const std::function<void()>& work) {
  for (int64_t k = 0; k < kWarmUps; ++k) work();
  wait_for(device);
  std::vector<double> times;
  for (int64_t k = 0; k < repeats; ++k) times.push_back(once_ms(device, work));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Ceilings measure_ceilings(const torch::Device& device, torch::ScalarType type) {
  constexpr int64_t kRepeats = 10;
  const int64_t n = device.is_cuda() ? 8192 : 1024;
  const auto options = torch::TensorOptions(device);
  const auto a = torch::randn({n, n}, options).to(type), b = torch::randn({n, n}, options).to(type);
  const auto product_ms = median_ms(device, kRepeats, [&] { at::matmul(a, b); });
  const int64_t bytes = int64_t{1} << (device.is_cuda() ? 30 : 28);
  const auto from = torch::zeros({bytes}, options.dtype(torch::kUInt8));
  auto to = torch::empty_like(from);
  const auto copy_ms = median_ms(device, kRepeats, [&] { to.copy_(from); });
  const auto size = static_cast<double>(n);
  return {.flops = 2 * size * size * size / (1e-3 * product_ms),
          .bytes = 2 * static_cast<double>(bytes) / (1e-3 * copy_ms)};
}

}  // namespace deq::lab::cli
