#pragma once

#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace deq::lab {

/// The numbers that belong to a key, one after the other.
class KeyedNumbers {
 public:
  explicit KeyedNumbers(uint64_t key) : words_(key) {}

  /// 0 ≤ … < 1
  double uniform() {
    const uint64_t high = words_();
    return static_cast<double>((high << 32 | words_()) >> 11) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// 0 … count − 1
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uniform() * static_cast<double>(count));
  }
  /// Of mean 0 and variance 1 (Box and Muller's).
  double normal() {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Poisson's: how many waiting times of mean 1 fit into `mean`.
  int64_t poisson(double mean) {
    int64_t events = 0;
    for (double time = -std::log1p(-uniform()); time <= mean; ++events) {
      time -= std::log1p(-uniform());
    }
    return events;
  }

 private:
  at::Philox4_32 words_;
};

}  // namespace deq::lab
