#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/common/host_device.h"

// What limited-memory Broyden knows of one sample's pairs (sⱼ, uⱼ) (notation in
// limited_broyden.cpp), on plain arrays, for host and device. The newest step lacks its u until the
// g it leads to is known.

namespace deq {

/// One sample's pairs, the oldest first, in an array of numbers(capacity).
struct LimitedPairs {
  double* s_g;         // s·g for the current g
  double* s_previous;  // s·g for the g before it
  double* s_s;         // ‖s‖²
  double* used;        // 0: a breakdown; its u is zero
  double* s_u;         // [capacity, capacity]: sⱼ·uᵢ for the pairs i before j
  int64_t capacity;

  DEQ_HOST_DEVICE static int64_t numbers(int64_t capacity) { return capacity * (capacity + 4); }
  DEQ_HOST_DEVICE static LimitedPairs in(double* array, int64_t capacity) {
    return {
        array,   array + capacity, array + 2 * capacity, array + 3 * capacity, array + 4 * capacity,
        capacity};
  }
};

/// A step just taken becomes pair `count`. `s_u` are its dots with the u of all pairs before it.
DEQ_HOST_DEVICE void add_step(const LimitedPairs& pairs, int64_t count, double s_previous,
                              double s_s, const double* s_u) {
  pairs.s_previous[count] = s_previous;
  pairs.s_s[count] = s_s;
  pairs.used[count] = 1.0;
  for (int64_t i = 0; i < count; ++i) pairs.s_u[count * pairs.capacity + i] = s_u[i];
}

/// The new g along every step.
DEQ_HOST_DEVICE void remember_dots(const LimitedPairs& pairs, int64_t count, const double* dots) {
  for (int64_t j = 0; j < count; ++j) pairs.s_g[j] = dots[j];
}

DEQ_HOST_DEVICE void drop_oldest(const LimitedPairs& pairs, int64_t count) {
  const int64_t m = pairs.capacity;
  for (int64_t j = 1; j < count; ++j) {
    pairs.s_g[j - 1] = pairs.s_g[j];
    pairs.s_previous[j - 1] = pairs.s_previous[j];
    pairs.s_s[j - 1] = pairs.s_s[j];
    pairs.used[j - 1] = pairs.used[j];
    for (int64_t i = 1; i < j; ++i) pairs.s_u[(j - 1) * m + i - 1] = pairs.s_u[j * m + i];
  }
}

/// cⱼ(v) of the first `count` pairs, for v = g or v = y = g − g_previous.
DEQ_HOST_DEVICE void pair_coefficients(const LimitedPairs& pairs, int64_t count, bool of_y,
                                       double* c) {
  for (int64_t j = 0; j < count; ++j) {
    c[j] = 0.0;
    if (pairs.used[j] == 0.0) continue;
    c[j] = of_y ? pairs.s_g[j] - pairs.s_previous[j] : pairs.s_g[j];
    for (int64_t i = 0; i < j; ++i) c[j] += c[i] * pairs.s_u[j * pairs.capacity + i];
  }
}

/// The weights of u for the newest of `count` pairs on [g, g_previous, s, u₀, …]: count + 2
/// numbers. False, and zeros, when its denominator vanishes.
DEQ_HOST_DEVICE bool update_weights(const LimitedPairs& pairs, int64_t count, double* w) {
  constexpr double kSmallestDenominator = 1e-10;  // of sᵀHy, in units of ‖s‖²
  const int64_t newest = count - 1;
  double* c = w + 3;
  pair_coefficients(pairs, newest, /*of_y=*/true, c);
  double minus_s_h_y = pairs.s_g[newest] - pairs.s_previous[newest];  // sᵀ(−H y)
  for (int64_t i = 0; i < newest; ++i) {
    minus_s_h_y += c[i] * pairs.s_u[newest * pairs.capacity + i];
  }
  if (!(std::abs(minus_s_h_y) > kSmallestDenominator * pairs.s_s[newest])) {
    pairs.used[newest] = 0.0;
    for (int64_t i = 0; i < count + 2; ++i) w[i] = 0.0;
    return false;
  }
  const double scale = -1.0 / minus_s_h_y;
  w[0] = scale;
  w[1] = -scale;
  w[2] = scale;
  for (int64_t i = 0; i < newest; ++i) c[i] *= scale;
  return true;
}

/// The weights of the next step on [g, u₀, …]: count + 1 numbers.
DEQ_HOST_DEVICE void step_weights(const LimitedPairs& pairs, int64_t count, double* w) {
  w[0] = 1.0;
  pair_coefficients(pairs, count, /*of_y=*/false, w + 1);
}

/// What was the current g is now the one before.
DEQ_HOST_DEVICE void turn_to_previous(const LimitedPairs& pairs, int64_t count) {
  for (int64_t j = 0; j < count; ++j) pairs.s_previous[j] = pairs.s_g[j];
}

}  // namespace deq
