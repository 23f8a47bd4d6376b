#pragma once

#include <algorithm>
#include <limits>

#include "kernels/attention/attention_pair.h"
#include "kernels/common/exponential.h"
#include "kernels/common/small_product.h"
#include "kernels/common/vectorised.h"

// What attention does for a few queries at a time, kTileRows at most, or for as many keys. What
// causality hides is neither multiplied nor exponentiated, except what fills up whole lanes.

namespace deq::kernels::attention {

/// s += t over whole lanes, −∞ outside [first, last), and the largest.
[[gnu::always_inline]] inline float add_and_mask(float* s, const float* t, int64_t first,
                                                 int64_t last, int64_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; ++j) s[j] += t[j];
  std::fill(s, s + first, kNone);
  std::fill(s + last, s + n, kNone);
  return largest_of(s, n);
}

/// Scores, without those of distances, to probabilities: 0 outside [first, last).
[[gnu::always_inline]] inline void to_probabilities(float* s, const float* by_distance,
                                                    int64_t first, int64_t last, int64_t n) {
  const float most = add_and_mask(s, by_distance, first, last, n);
  for (int64_t j = 0; j < n; ++j) s[j] = exponential(s[j] - most);
  std::fill(s, s + first, 0.0F);
  std::fill(s + last, s + n, 0.0F);
  const float share = 1 / sum_of(s, n);
  for (int64_t j = 0; j < n; ++j) s[j] *= share;
}

/// Probabilities p of `rows` queries from query i on; `scratch` has room for as many.
inline constexpr auto probabilities_of =
    vectorised([](const Shape& s, const Workspace& w, int64_t i, int64_t rows, float* __restrict p,
                  float* __restrict scratch) DEQ_INLINED {
      const int64_t row = s.key_row(), n = whole_lanes(s.last(i + rows - 1));
      const auto from = i * s.head_row();
      multiply_few_rows<false>({.a = w.content.data() + from,
                                .a_row = s.head_row(),
                                .a_step = 1,
                                .b = w.across.data(),
                                .b_step = row},
                               rows, s.width, p, row, n);
      multiply_few_rows<true>({.a = w.position.data() + from,
                               .a_row = s.head_row(),
                               .a_step = 1,
                               .b = w.distances.data() + s.queries - 1 - i,
                               .b_step = s.distance_row(),
                               .b_back = 1},
                              rows, s.width, scratch, row, n);
      for (int64_t r = 0; r < rows; ++r) {
        to_probabilities(p + r * row, scratch + r * row, s.first(i + r), s.last(i + r), n);
        std::fill(p + r * row + n, p + (r + 1) * row, 0.0F);
      }
    });

/// to = Σⱼ p[r, j] along[j] for `rows` queries from query i on.
inline constexpr auto weighted_sums =
    vectorised([](const Shape& s, const float* along, int64_t i, int64_t rows, const float* p,
                  float* to) DEQ_INLINED {
      multiply_few_rows<false>(
          {.a = p, .a_row = s.key_row(), .a_step = 1, .b = along, .b_step = s.head_row()}, rows,
          s.last(i + rows - 1), to, s.head_row(), s.head_row());
    });

/// The same over distances: row r of them begins where that query's do.
inline constexpr auto weighted_distances =
    vectorised([](const Shape& s, const Workspace& w, int64_t i, int64_t rows, const float* p,
                  float* to) DEQ_INLINED {
      multiply_few_rows<true>({.a = p,
                               .a_row = s.key_row(),
                               .a_step = 1,
                               .b = w.distances_along.data() + (s.queries - 1 - i) * s.head_row(),
                               .b_step = s.head_row(),
                               .b_back = s.head_row()},
                              rows, s.last(i + rows - 1), to, s.head_row(), s.head_row());
    });

/// to = Σᵢ p[i, j] rows_of[i] for `count` keys from key j on, over the queries that see one of
/// them.
inline constexpr auto sums_over_queries =
    vectorised([](const Shape& s, const float* p, const float* rows_of, int64_t j, int64_t count,
                  float* to) DEQ_INLINED {
      const int64_t from = std::max<int64_t>(0, j - (s.keys() - s.queries));
      multiply_few_rows<false>({.a = p + from * s.key_row() + j,
                                .a_row = 1,
                                .a_step = s.key_row(),
                                .b = rows_of + from * s.head_row(),
                                .b_step = s.head_row()},
                               count, s.queries - from, to, s.head_row(), s.head_row());
    });

/// The gradients of scores from those of probabilities, of `rows` queries from query i on:
///   ∂s = p ⊙ (∂p − Σⱼ pⱼ ∂pⱼ),  ∂p = (∂y·values) ⊙ dropout.
inline constexpr auto pull_scores = vectorised(
    [](const Shape& s, const Workspace& w, const float* g, int64_t i, int64_t rows,
       const float* dropout, const float* __restrict p, float* __restrict to) DEQ_INLINED {
      const int64_t row = s.key_row(), n = whole_lanes(s.last(i + rows - 1));
      multiply_few_rows<false>(
          {.a = g, .a_row = s.head_row(), .a_step = 1, .b = w.across.data(), .b_step = row}, rows,
          s.width, to, row, n);
      for (int64_t r = 0; r < rows; ++r) {
        float* const own = to + r * row;
        const float* const probability = p + r * row;
        if (dropout != nullptr) {
          for (int64_t j = 0; j < s.keys(); ++j) own[j] *= dropout[r * s.keys() + j];
        }
        FloatLanes sums{};
        for (int64_t j = 0; j < n; j += kLanes) sums += lanes(own + j) * lanes(probability + j);
        const float sum = sum_of(sums);
        for (int64_t j = 0; j < n; ++j) own[j] = probability[j] * (own[j] - sum);
        std::fill(own + n, own + row, 0.0F);
      }
    });

}  // namespace deq::kernels::attention
