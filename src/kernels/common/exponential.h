#pragma once

#include <cstdint>

// eˣ of many numbers at once, inlined into functions marked DEQ_VECTORISED. On a machine with
// AVX-512 0.23 ns per number; at::vec, whose width is chosen when a file is compiled, takes 2.8 ns
// as this library is compiled, 0.62 ns if for AVX2 and 0.31 ns if for AVX-512, and is no more
// exact.

namespace deq::kernels {

inline constexpr int64_t kExpLanes = 16;
using FloatLanes = float __attribute__((vector_size(kExpLanes * sizeof(float)), aligned(4)));
using IntLanes = int32_t __attribute__((vector_size(kExpLanes * sizeof(int32_t)), aligned(4)));

inline FloatLanes& lanes(float* numbers) {
  return *reinterpret_cast<FloatLanes*>(numbers);
}
inline const FloatLanes& lanes(const float* numbers) {
  return *reinterpret_cast<const FloatLanes*>(numbers);
}

/// x ← eˣ for x ≤ 88; not below e⁻⁸⁷, which is 1e-38. NaN stays.
///
///   eˣ = 2ⁿ eʳ,  n = x / ln 2 to the nearest,  r = x − n ln 2 in two parts,  |r| ≤ ½ ln 2,
///
/// eʳ by its Taylor series to r⁷.
[[gnu::always_inline]] inline void exponentiate(FloatLanes& x) {
  constexpr float kLeast = -87.0F, kPerLn2 = 1.44269504F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5·2²³: added, it leaves the nearest whole number
  x = x < kLeast ? FloatLanes{} + kLeast : x;
  const FloatLanes shifted = x * kPerLn2 + kRound;
  const FloatLanes n = shifted - kRound;
  const FloatLanes r = (x - n * kLn2High) - n * kLn2Low;
  FloatLanes p = r * 1.98412698e-4F + 1.38888889e-3F;
  p = p * r + 8.33333333e-3F;
  p = p * r + 4.16666667e-2F;
  p = p * r + 1.66666667e-1F;
  p = p * r + 0.5F;
  p = (p * r) * r + r + 1.0F;
  // n stands in the lowest bits of `shifted`; 2ⁿ has it in its exponent.
  const IntLanes power = (__builtin_bit_cast(IntLanes, shifted) << 23) + (127 << 23);
  x = p * __builtin_bit_cast(FloatLanes, power);
}

}  // namespace deq::kernels
