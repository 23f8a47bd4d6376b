#pragma once

#include "kernels/common/lanes.h"
#include "kernels/common/vectorised.h"

// Products of matrices so small that a library's packing would cost more than the product. They are
// inlined into what vectorised() compiles.

namespace deq::kernels {

/// What is multiplied: a[r, k] at a + r·a_row + k·a_step; row k of b at b + k·b_step, for row r of
/// the result b_back·r further back.
struct SmallFactors {
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_step, b_back = 0;
};

template <int64_t kRows, int64_t kVectors, bool kShifted>
[[gnu::always_inline]] inline void multiply_tile(const SmallFactors& f, int64_t depth, float* c,
                                                 int64_t c_row) {
  FloatLanes sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const float* const row = f.b + k * f.b_step;
    if constexpr (kShifted) {
      for (int64_t r = 0; r < kRows; ++r) {
        const float factor = f.a[r * f.a_row + k * f.a_step];
        for (int64_t v = 0; v < kVectors; ++v) {
          sums[r][v] += factor * lanes(row - r * f.b_back + v * kLanes);
        }
      }
    } else {
      FloatLanes numbers[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) numbers[v] = lanes(row + v * kLanes);
      for (int64_t r = 0; r < kRows; ++r) {
        const float factor = f.a[r * f.a_row + k * f.a_step];
        for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += factor * numbers[v];
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) lanes(c + r * c_row + v * kLanes) = sums[r][v];
  }
}

template <int64_t kRows, bool kShifted>
[[gnu::always_inline]] inline void multiply_rows(SmallFactors f, int64_t depth, float* c,
                                                 int64_t c_row, int64_t columns) {
  constexpr int64_t kWide = 3 * kLanes;  // four rows of it fill twelve of sixteen registers
  int64_t column = 0;
  for (; column + kWide <= columns; column += kWide, f.b += kWide) {
    multiply_tile<kRows, 3, kShifted>(f, depth, c + column, c_row);
  }
  if (columns - column > kLanes) {
    multiply_tile<kRows, 2, kShifted>(f, depth, c + column, c_row);
  } else if (columns > column) {
    multiply_tile<kRows, 1, kShifted>(f, depth, c + column, c_row);
  }
}

/// c[r, j] = Σₖ a[r, k] b[k, j] for up to kTileRows rows; whole lanes of columns are written.
inline constexpr int64_t kTileRows = 4;
template <bool kShifted>
[[gnu::always_inline]] inline void multiply_few_rows(const SmallFactors& f, int64_t rows,
                                                     int64_t depth, float* c, int64_t c_row,
                                                     int64_t columns) {
  if (rows == kTileRows) {
    multiply_rows<kTileRows, kShifted>(f, depth, c, c_row, columns);
    return;
  }
  SmallFactors one = f;
  for (int64_t r = 0; r < rows; ++r, one.a += f.a_row, one.b -= f.b_back) {
    multiply_rows<1, kShifted>(one, depth, c + r * c_row, c_row, columns);
  }
}

}  // namespace deq::kernels
