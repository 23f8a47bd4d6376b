#include "core/float32_rounding.h"

#include <ATen/Context.h>
#include <torch/version.h>

namespace deq {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11

std::array<int64_t, 6> float32_settings() {
  using at::Float32Precision;
  std::array<int64_t, 6> settings{};
  size_t next = 0;
  for (const auto backend : {at::Float32Backend::CUDA, at::Float32Backend::MKLDNN}) {
    for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
      const auto set = at::globalContext().float32Precision(backend, op);
      // Without a setting nothing is rounded either.
      const auto meant = set == Float32Precision::NONE ? Float32Precision::IEEE : set;
      settings.at(next++) = static_cast<int64_t>(meant);
    }
  }
  return settings;
}

Tf32Allowed tf32_allowed() {
  const auto settings = float32_settings();
  constexpr auto kTf32 = static_cast<int64_t>(at::Float32Precision::TF32);
  return {.products = settings[0] == kTf32, .convolutions = settings[1] == kTf32};
}

#else  // the newer settings had other names, or there were none

std::array<int64_t, 6> float32_settings() {
  const auto [products, convolutions] = tf32_allowed();
  return {static_cast<int64_t>(products), static_cast<int64_t>(convolutions)};
}

Tf32Allowed tf32_allowed() {
  const auto& context = at::globalContext();
  return {.products = context.allowTF32CuBLAS(), .convolutions = context.allowTF32CuDNN()};
}

#endif

}  // namespace deq
