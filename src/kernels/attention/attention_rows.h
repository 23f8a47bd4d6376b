#pragma once

#include "kernels/attention/attention_pair.h"

// What attention does for a few queries at a time, kTileRows at most, or for as many keys. What
// causality hides is neither multiplied nor exponentiated, except what fills up whole lanes.

namespace deq::kernels::attention {

/// Probabilities p of `rows` queries from query i on; `scratch` has room for as many.
void probabilities_of(const Shape& s, const Workspace& w, int64_t i, int64_t rows, float* p,
                      float* scratch);

/// to = Σⱼ p[r, j] along[j] for `rows` queries from query i on.
void weighted_sums(const Shape& s, const float* along, int64_t i, int64_t rows, const float* p,
                   float* to);

/// The same over distances: row r of them begins where that query's do.
void weighted_places(const Shape& s, const Workspace& w, int64_t i, int64_t rows, const float* p,
                     float* to);

/// to = Σᵢ p[i, j] rows_of[i] for `count` keys from key j on, over the queries that see one of
/// them.
void sums_over_queries(const Shape& s, const float* p, const float* rows_of, int64_t j,
                       int64_t count, float* to);

/// The gradients of scores from those of probabilities, of `rows` queries from query i on:
///   ∂s = p ⊙ (∂p − Σⱼ pⱼ ∂pⱼ),  ∂p = (∂y·values) ⊙ dropout.
void pull_scores(const Shape& s, const Workspace& w, const float* g, int64_t i, int64_t rows,
                 const float* dropout, const float* p, float* to);

}  // namespace deq::kernels::attention
