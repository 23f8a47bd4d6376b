#include <ATen/ops/_addmm_activation.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/threshold_backward.h>

#include "kernels/feed_forward.h"
#include "kernels/tensor_cores.h"

namespace deq::kernels::tensor_cores {
namespace {

/// In place; the mask is that of the sample to which a row belongs.
void apply_mask(const at::Tensor& rows, const at::Tensor& mask) {
  if (mask.defined()) rows.view({mask.size(0), -1, mask.size(2)}).mul_(mask);
}

}  // namespace

bool feed_forward_serves(const at::Tensor& x, const FeedForwardWeights& weights) {
  return wants_aligned_rows(weights.inner) && x.is_cuda();
}

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask, at::Tensor& hidden) {
  hidden = at::_addmm_activation(weights.inner_bias, x.flatten(0, 1), weights.inner);
  apply_mask(hidden, mask);
  return at::addmm(weights.outer_bias, hidden, weights.outer).view({x.size(0), x.size(1), -1});
}

FeedForwardGradients feed_forward_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& hidden,
                                           const FeedForwardWeights& weights,
                                           const at::Tensor& mask, bool with_weights) {
  const auto pull = g.reshape({-1, g.size(2)}), rows = x.flatten(0, 1);
  auto inner = pull.mm(weights.outer.t());
  at::threshold_backward_out(inner, inner, hidden, 0);
  apply_mask(inner, mask);
  FeedForwardGradients result{.for_x = inner.mm(weights.inner.t()).view(x.sizes())};
  if (!with_weights) return result;
  result.for_inner = rows.t().mm(inner);
  result.for_inner_bias = inner.sum(0);
  result.for_outer = hidden.t().mm(pull);
  result.for_outer_bias = pull.sum(0);
  return result;
}

}  // namespace deq::kernels::tensor_cores
