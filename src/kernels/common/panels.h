#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/vectorised.h"

// Products of matrices whose second factor was laid out in panels: some vectors of columns, row
// after row, so that the innermost loop reads it from beginning to end. Inlined into what
// vectorised() compiles.

namespace deq::kernels::panels {

inline constexpr int64_t kLanes = 8;  // columns of a vector; a wide one has two of them

// Of numbers that may lie anywhere. A template's argument would lose its alignment, so templates
// take the width.
using Vector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));
using WideVector = float __attribute__((vector_size(2 * kLanes * sizeof(float)), aligned(4)));
template <int64_t kWidth>
struct VectorOf {
  using Type = Vector;
};
template <>
struct VectorOf<2 * kLanes> {
  using Type = WideVector;
};
template <int64_t kWidth>
using Lanes = typename VectorOf<kWidth>::Type;
#define DEQ_INLINE [[gnu::always_inline]] inline

template <int64_t kWidth>
DEQ_INLINE Lanes<kWidth>& vector_at(float* numbers) {
  return *reinterpret_cast<Lanes<kWidth>*>(numbers);
}
template <int64_t kWidth>
DEQ_INLINE const Lanes<kWidth>& vector_at(const float* numbers) {
  return *reinterpret_cast<const Lanes<kWidth>*>(numbers);
}

/// How many vectors of columns a panel has, of those that are left. With AVX-512 they are taken as
/// wide vectors, except a last one.
inline constexpr int64_t kMostVectors = 6;
DEQ_INLINE int64_t panel_vectors(int64_t left) {
  if (widest_instructions != InstructionSet::kAvx512) return std::min<int64_t>(left, 3);
  return left == 1 ? 1 : std::min<int64_t>(left / 2 * 2, kMostVectors);
}

/// The first factor and the result: rows a_row and c_row apart, the numbers of a row side by side.
struct Rows {
  const float* a;
  int64_t a_row;
  float* c;
  int64_t c_row;
};

/// c[row][kVectors] = Σ_k a[row][k]·panel[k][kVectors] for kRows rows, or c += where `add`.
template <int64_t kWidth, int64_t kRows, int64_t kVectors>
DEQ_INLINE void multiply_rows(const Rows& rows, int64_t depth, const float* panel, bool add) {
  Lanes<kWidth> sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Lanes<kWidth> weights[kVectors];
    for (int64_t j = 0; j < kVectors; ++j) {
      weights[j] = vector_at<kWidth>(panel + (k * kVectors + j) * kWidth);
    }
    for (int64_t row = 0; row < kRows; ++row) {
      const float factor = rows.a[row * rows.a_row + k];
      for (int64_t j = 0; j < kVectors; ++j) sums[row][j] += factor * weights[j];
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t j = 0; j < kVectors; ++j) {
      auto& to = vector_at<kWidth>(rows.c + row * rows.c_row + j * kWidth);
      to = add ? to + sums[row][j] : sums[row][j];
    }
  }
}

/// The same for `count` rows, kRows at a time as far as they go.
template <int64_t kWidth, int64_t kRows, int64_t kVectors>
DEQ_INLINE void multiply(Rows rows, int64_t count, int64_t depth, const float* panel, bool add) {
  int64_t row = 0;
  for (; row + kRows <= count; row += kRows) {
    multiply_rows<kWidth, kRows, kVectors>(rows, depth, panel, add);
    rows.a += kRows * rows.a_row;
    rows.c += kRows * rows.c_row;
  }
  for (; row < count; ++row) {
    multiply_rows<kWidth, 1, kVectors>(rows, depth, panel, add);
    rows.a += rows.a_row;
    rows.c += rows.c_row;
  }
}

/// The same for a panel of so many vectors: 24 sums stay in the registers of AVX-512, 12 in those
/// of AVX2.
DEQ_INLINE void multiply_panel(const Rows& rows, int64_t count, int64_t depth, const float* panel,
                               int64_t vectors, bool add) {
  if (widest_instructions == InstructionSet::kAvx512) {
    switch (vectors) {
      case 6:
        return multiply<2 * kLanes, 8, 3>(rows, count, depth, panel, add);
      case 4:
        return multiply<2 * kLanes, 8, 2>(rows, count, depth, panel, add);
      case 2:
        return multiply<2 * kLanes, 8, 1>(rows, count, depth, panel, add);
      default:
        return multiply<kLanes, 8, 1>(rows, count, depth, panel, add);
    }
  }
  switch (vectors) {
    case 3:
      return multiply<kLanes, 4, 3>(rows, count, depth, panel, add);
    case 2:
      return multiply<kLanes, 4, 2>(rows, count, depth, panel, add);
    default:
      return multiply<kLanes, 4, 1>(rows, count, depth, panel, add);
  }
}

#undef DEQ_INLINE

}  // namespace deq::kernels::panels
