#pragma once

#include <ATen/core/Tensor.h>

// The probabilities of attention with relative positions, from two products: scores by content
// c [n, q, k], and by distance t [n, q, k + padding], in whose rows a query's distance 0 comes one
// column further left than the query's before it. Query i sees key j with
//
//   p[i, j] = softmax over j of scale·(c[i, j] + t[i, j + q − 1 − i]), times its dropout.
//
// On a GPU one kernel reads both and writes p once: neither the shift nor the mask is ever made.
// The operators deq::relative_softmax and deq::relative_softmax_backward are the CUDA plugin's.

namespace deq::kernels {

struct SoftmaxTerms {
  double scale = 1;
  int64_t horizon = 0;   ///< as attention_mask()
  int64_t hidden = 0;    ///< likewise
  at::Tensor dropout{};  ///< factors [n, q, k], or undefined
  at::Tensor mask{};     ///< attention_mask()
};

/// [n, q, k]. Differentiable as often as wanted, for both scores.
at::Tensor relative_softmax(const at::Tensor& content, const at::Tensor& distances,
                            const SoftmaxTerms& terms);

bool relative_softmax_serves(const at::Tensor& content, const at::Tensor& distances);

namespace reference {
at::Tensor relative_softmax(const at::Tensor& content, const at::Tensor& distances,
                            const SoftmaxTerms& terms);

/// Rows i of [n, q, k'] from their column q − 1 − i on; the first k columns of that, as a view.
at::Tensor shifted(const at::Tensor& distances, int64_t keys);
}  // namespace reference

}  // namespace deq::kernels
