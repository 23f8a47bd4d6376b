#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/probes/philox.h"

// The numbers of a probe from random words, for host and device. Logarithm, sine and cosine are
// their series, summed without branches: loops over them vectorise, and host and device agree to
// rounding.

namespace deq::kernels {

/// Rows that share the four words of a Philox block.
constexpr int64_t kProbeRows = 4;
/// Columns that share a block of signs, one bit each.
constexpr int64_t kSignColumns = 32;

/// Σₖ tᵏ/(2k + 1) from k = kFirst to kLast, over t^kFirst: artanh(s)/s for t = s².
template <int kFirst, int kLast, class T>
DEQ_HOST_DEVICE T artanh_series(T t) {
  constexpr T kCoefficient = T(1) / T(2 * kFirst + 1);
  if constexpr (kFirst == kLast) {
    return kCoefficient;
  } else {
    return kCoefficient + t * artanh_series<kFirst + 1, kLast>(t);
  }
}

/// 1 − t/(k(k + 1))·(1 − t/((k + 2)(k + 3))·(…)) up to k = kLast: cos x for kFirst = 1 and sin(x)/x
/// for kFirst = 2, with t = x².
template <int kFirst, int kLast, class T>
DEQ_HOST_DEVICE T circle_series(T t) {
  constexpr T kCoefficient = T(1) / T(kFirst * (kFirst + 1));
  if constexpr (kFirst == kLast) {
    return T(1) - t * kCoefficient;
  } else {
    return T(1) - t * kCoefficient * circle_series<kFirst + 2, kLast>(t);
  }
}

template <class T>
struct NumberFormat;

template <>
struct NumberFormat<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kLastArtanh = 4, kLastCos = 9, kLastSin = 8;
};

template <>
struct NumberFormat<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kLastArtanh = 10, kLastCos = 15, kLastSin = 16;
};

/// −log u for u = (word + ½)/2³², which is never 0.
template <class T>
DEQ_HOST_DEVICE T minus_log_uniform(uint32_t word) {
  using Format = NumberFormat<T>;
  using Bits = typename Format::Bits;
  constexpr T kLog2 = T(0.693147180559945309417), kRootHalf = T(0.707106781186547524401);
  // 2³³u = 2^exponent·m with √½ ≤ m < √2, and log m = 2 artanh((m − 1)/(m + 1)).
  const auto bits = std::bit_cast<Bits>(T(2) * static_cast<T>(word) + T(1));
  const auto exponent = (bits - std::bit_cast<Bits>(kRootHalf)) >> Format::kMantissaBits;
  const auto m = std::bit_cast<T>(bits - (exponent << Format::kMantissaBits));
  const T s = (m - T(1)) / (m + T(1));
  const T log_m = T(2) * s * artanh_series<0, Format::kLastArtanh>(s * s);
  return static_cast<T>(33 - static_cast<int32_t>(exponent)) * kLog2 - log_m;
}

template <class T>
struct NormalPair {
  T first, second;
};

/// Two independent normal numbers by Box and Muller.
template <class T>
DEQ_HOST_DEVICE NormalPair<T> normal_pair(uint32_t radius_word, uint32_t angle_word) {
  using Format = NumberFormat<T>;
  constexpr T kRadiansPerUnit = T(6.283185307179586476925 / 4294967296.0);
  const T radius = std::sqrt(T(2) * minus_log_uniform<T>(radius_word));
  // The angle is a whole number of quarters and at most an eighth of a turn to either side.
  const uint32_t quarter = (angle_word + 0x20000000) >> 30;
  const T x = static_cast<T>(static_cast<int32_t>(angle_word - (quarter << 30))) * kRadiansPerUnit;
  const T cosine = circle_series<1, Format::kLastCos>(x * x);
  const T sine = x * circle_series<2, Format::kLastSin>(x * x);
  const bool odd = (quarter & 1) != 0;
  const T along = odd ? sine : cosine, across = odd ? cosine : sine;
  return {((quarter + 1) & 2) != 0 ? -radius * along : radius * along,
          (quarter & 2) != 0 ? -radius * across : radius * across};
}

template <class T>
DEQ_HOST_DEVICE T sign_of_bit(uint32_t word, uint32_t bit) {
  return T(1) - T(2) * static_cast<T>(static_cast<int32_t>(word >> bit & 1));
}

}  // namespace deq::kernels
