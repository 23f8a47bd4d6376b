#pragma once

#include <cstdint>

// Rows of numbers that are padded to whole lanes, and arithmetic on some lanes at once; inlined
// into what vectorised() compiles.

namespace deq::kernels {

// As wide as AVX2's registers, or NEON's. Of wider ones GCC keeps what AVX2 computes in memory: a
// product of small matrices then runs at a hundredth of its speed, and on a machine with AVX-512 it
// gains nothing (118 GFLOP/s both ways).
#if defined(__x86_64__)
inline constexpr int64_t kLanes = 8;
#else
inline constexpr int64_t kLanes = 4;
#endif
using FloatLanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

inline FloatLanes& lanes(float* numbers) {
  return *reinterpret_cast<FloatLanes*>(numbers);
}
inline const FloatLanes& lanes(const float* numbers) {
  return *reinterpret_cast<const FloatLanes*>(numbers);
}

constexpr int64_t whole_lanes(int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

/// Of n numbers, in whole lanes; n > 0.
[[gnu::always_inline]] inline float largest_of(const float* s, int64_t n) {
  FloatLanes most = lanes(s);
  for (int64_t j = kLanes; j < n; j += kLanes) most = lanes(s + j) > most ? lanes(s + j) : most;
  float result = most[0];
  for (int64_t l = 1; l < kLanes; ++l) result = result > most[l] ? result : most[l];
  return result;
}

[[gnu::always_inline]] inline float sum_of(const FloatLanes& numbers) {
  float sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += numbers[l];
  return sum;
}

/// Of n numbers, in whole lanes.
[[gnu::always_inline]] inline float sum_of(const float* s, int64_t n) {
  FloatLanes sums{};
  for (int64_t j = 0; j < n; j += kLanes) sums += lanes(s + j);
  return sum_of(sums);
}

}  // namespace deq::kernels
