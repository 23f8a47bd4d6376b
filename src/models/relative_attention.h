#pragma once

#include <torch/types.h>

// Attention with relative positions (Dai et al. 2019): the score of query i and key j is
//
//   ((qᵢ + c)·kⱼ + (qᵢ + p)·r(distance of i and j)) / √d_head,
//
// c and p biases of a head, r a projection of the distance's sines and cosines. All distances of a
// query are one row of a product of matrices, in which a query's distance 0 comes one place further
// left than the query's before it: the scores are a view of that product, not a copy.

namespace deq {

/// Projected distances [k, h·d], the farthest first, made ready: [h, d, k + padding].
torch::Tensor position_keys(const torch::Tensor& projected, int64_t heads);

/// [q, k], true where a query may not look: ahead of itself, or `horizon` or more places back
/// (0: no limit). The last q of the k places are the queries' own. Undefined where all may.
torch::Tensor attention_mask(int64_t queries, int64_t keys, int64_t horizon, torch::Device device);

/// What stays the same while queries, keys and values change.
struct AttentionTerms {
  torch::Tensor content_bias;   ///< c [h, d]
  torch::Tensor position_bias;  ///< p [h, d]
  torch::Tensor positions;      ///< position_keys()
  torch::Tensor mask;           ///< attention_mask()
  torch::Tensor dropout;        ///< factors of the probabilities [h·B, q, k], or undefined
};

/// [B, q, h·d] for queries [B, q, h, d] and, one after the other, keys and values [2, h, B, k, d].
torch::Tensor attend(const torch::Tensor& queries, const torch::Tensor& keys_values,
                     const AttentionTerms& terms);

}  // namespace deq
