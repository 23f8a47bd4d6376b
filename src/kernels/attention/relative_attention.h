#pragma once

#include <ATen/core/Tensor.h>

// Attention with relative positions (Dai et al. 2019): the score of query i and key j is
//
//   ((qᵢ + c)·kⱼ + (qᵢ + p)·r(distance of i and j)) / √d_head,
//
// c and p biases of a head, r a projection of the distance's sines and cosines. In plain torch all
// distances of a query are one row of a product of matrices, in which a query's distance 0 comes
// one column further left than the query's before it: the scores are a view of that product, and on
// a GPU relative_softmax.h reads them where they are.

namespace deq::kernels {

/// Projected distances [k, h·d], the farthest first, made ready: [h, d, hidden + k + padding].
at::Tensor position_keys(const at::Tensor& projected, int64_t heads, int64_t hidden = 0);

/// [q, k], true where a query may not look: ahead of itself, or `horizon` or more positions back
/// (0: no limit), or at the first `hidden` keys, which are none: GPUs multiply matrices faster
/// whose rows are aligned. The last q of the k positions are the queries' own. Undefined where all
/// may.
at::Tensor attention_mask(int64_t queries, int64_t keys, int64_t horizon, at::Device device,
                          int64_t hidden = 0);

/// What stays the same while queries, keys and values change.
struct AttentionTerms {
  at::Tensor content_bias{};   ///< c [h, d]
  at::Tensor position_bias{};  ///< p [h, d]
  at::Tensor positions{};      ///< position_keys()
  at::Tensor past{};     ///< keys and values before those of qkv [2, h, B, m, d], or undefined
  at::Tensor dropout{};  ///< factors of the probabilities [h·B, q, k], or undefined
  int64_t horizon = 0;   ///< that of the mask
  int64_t hidden = 0;    ///< likewise: so many of the past are zeros that nobody sees
  int64_t d_head = 0;    ///< numbers of a head, where zeros beyond them make it d; 0: d
  at::Tensor mask{};     ///< attention_mask() of q queries and k = m + n keys
};

/// [B, q, h·d] for queries, keys and values side by side, [B, n, 3, h, d]; the queries are those of
/// the last q positions. Differentiable as often as wanted, for all except dropout and mask.
at::Tensor attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms);

namespace reference {
at::Tensor attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms);
}  // namespace reference

namespace cpu {
bool attend_serves(const at::Tensor& qkv, const AttentionTerms& terms);

struct Attention {
  at::Tensor seen;           ///< as attend()
  at::Tensor probabilities;  ///< for attend_backward, where they are kept; before dropout
};
Attention attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms, bool keep);

struct AttentionGradients {
  at::Tensor for_qkv{}, for_content_bias{}, for_position_bias{}, for_positions{}, for_past{};
};
/// For g as attend()'s result; those for the terms only `with_terms`.
AttentionGradients attend_backward(const at::Tensor& g, const at::Tensor& qkv, int64_t queries,
                                   const AttentionTerms& terms, const at::Tensor& probabilities,
                                   bool with_terms);
}  // namespace cpu

}  // namespace deq::kernels
