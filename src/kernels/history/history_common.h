#pragma once

#include <cstdint>

// What the kernels of history.h and their callers share; no torch here.

namespace deq::kernels {

/// Rows that one launch on a GPU takes.
constexpr int kMaxRows = 64;

/// What is known of a sample when the next iterate is made: one byte per sample.
enum Mark : uint8_t {
  kActive = 1,    ///< it still moves
  kImproved = 2,  ///< the current iterate is its best so far
};

}  // namespace deq::kernels
