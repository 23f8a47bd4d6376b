#include "bench/stopwatch.h"

#include <ATen/ops/matmul.h>
#include <ATen/record_function.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

namespace deq::cli {
namespace {

constexpr int64_t kWarmUps = 4;  // the first passes of a layer choose algorithms and record graphs

double once_ms(const torch::Device& device, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  wait_for(device);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return time.count();
}

// torch calls back a plain function, so what it counts is here.
thread_local double counted_flops = 0;

double convolution_flops(const torch::Tensor& x, const torch::Tensor& weight,
                         const std::vector<int64_t>& stride, const std::vector<int64_t>& padding) {
  // One number may stand for all dimensions.
  const auto in_dimension = [](const std::vector<int64_t>& numbers, int64_t d) {
    return numbers[std::min(numbers.size() - 1, static_cast<size_t>(d - 2))];
  };
  double pixels = 1;
  for (int64_t d = 2; d < x.dim(); ++d) {
    const auto reach = x.size(d) + 2 * in_dimension(padding, d) - weight.size(d);
    pixels *= static_cast<double>(reach / in_dimension(stride, d) + 1);
  }
  return 2.0 * static_cast<double>(x.size(0) * weight.numel()) * pixels;
}

double product_flops(const torch::Tensor& a, const torch::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel() * b.size(-1));
}

std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto inputs = call.inputs();
  if (name == "aten::convolution") {
    counted_flops += convolution_flops(inputs[0].toTensor(), inputs[1].toTensor(),
                                       inputs[3].toIntVector(), inputs[4].toIntVector());
  } else if (name == "aten::mm" || name == "aten::bmm") {
    counted_flops += product_flops(inputs[0].toTensor(), inputs[1].toTensor());
  } else if (name == "aten::addmm" || name == "aten::baddbmm") {
    counted_flops += product_flops(inputs[1].toTensor(), inputs[2].toTensor());
  }
  return nullptr;
}

}  // namespace

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

double count_flops(const std::function<void()>& work) {
  counted_flops = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&count_call)
                                                     .needsInputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return counted_flops;
}

}  // namespace deq::cli
