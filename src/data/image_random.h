#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace deq {

/// The numbers that belong to a key, one after the other.
class KeyedNumbers {
 public:
  explicit KeyedNumbers(uint64_t key) : key_(key) {}

  /// 0 ≤ … < 1
  double uniform() {
    if (drawn_ % 2 == 0) block_ = kernels::philox(key_, drawn_ / 2, 0);
    const auto* word = block_.word + drawn_++ % 2 * 2;
    return static_cast<double>((uint64_t{word[0]} << 32 | word[1]) >> 11) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// 0 … count − 1
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uniform() * static_cast<double>(count));
  }

 private:
  uint64_t key_;
  uint64_t drawn_ = 0;
  kernels::PhiloxBlock block_{};
};

}  // namespace deq
