#pragma once

#include <cstdint>

// Images as CUDA kernels take them: in channels-last order with dense pixels, so that a thread can
// read several channels of a pixel at once.

namespace deq::kernels::cuda {

constexpr int64_t kMostSamples = 65535;  // in a grid's second dimension

enum class Number { BFloat16, Float32, Float64 };

/// Null where there is none; `stride` is the distance of two samples.
struct ImagePointer {
  const void* data;
  int64_t stride;
};

/// Likewise, to be written.
struct ImageTarget {
  void* data;
  int64_t stride;
};

/// Numbers that a thread reads at once: at most 16 bytes, of which there is a whole number in
/// `channels`.
constexpr int vector_width(int64_t channels, int64_t bytes_per_number) {
  int width = static_cast<int>(16 / bytes_per_number);
  while (width > 1 && channels % width != 0) width = width > 4 ? width / 2 : 1;
  return width;
}

}  // namespace deq::kernels::cuda
