#include <ATen/ops/_addmm_activation.h>
#include <ATen/ops/threshold_backward.h>

#include "kernels/feed_forward/feed_forward.h"
#include "kernels/feed_forward/sample_masks.h"

namespace deq::kernels::tensor_cores {
bool feed_forward_serves(const at::Tensor& x, const FeedForwardWeights& weights) {
  const auto type = weights.inner.scalar_type();
  return x.is_cuda() && (type == at::kBFloat16 || type == at::kFloat) &&
         weights.inner.size(1) % 8 == 0;
}

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask, at::Tensor& hidden) {
  hidden = at::_addmm_activation(weights.inner_bias, x.flatten(0, 1), weights.inner);
  if (mask.defined()) mask_samples(hidden, mask, {});
  // With the bias in the product cuBLAS does not split its long inner dimension, which costs more
  // than a pass over the few numbers that come out.
  return hidden.mm(weights.outer).add_(weights.outer_bias).view({x.size(0), x.size(1), -1});
}

FeedForwardGradients feed_forward_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& hidden,
                                           const FeedForwardWeights& weights,
                                           const at::Tensor& mask, bool with_weights) {
  const auto pull = g.reshape({-1, g.size(2)}), rows = x.flatten(0, 1);
  auto inner = pull.mm(weights.outer.t());
  if (mask.defined()) {
    mask_samples(inner, mask, /*positive=*/hidden);
  } else {
    at::threshold_backward_out(inner, inner, hidden, 0);
  }
  FeedForwardGradients result{.for_x = inner.mm(weights.inner.t()).view(x.sizes())};
  if (!with_weights) return result;
  result.for_inner = rows.t().mm(inner);
  result.for_inner_bias = inner.sum(0);
  result.for_outer = hidden.t().mm(pull);
  result.for_outer_bias = pull.sum(0);
  return result;
}

}  // namespace deq::kernels::tensor_cores
