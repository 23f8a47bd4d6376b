#include "kernels/feed_forward/feed_forward.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "kernels/common/affine.h"
#include "kernels/common/block_cache.h"
#include "kernels/common/operators.h"

namespace deq::kernels {

namespace reference {

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask) {
  const auto& [inner, inner_bias, outer, outer_bias] = weights;
  auto hidden = at::addmm(inner_bias, x.flatten(0, 1), inner);
  if (mask.defined()) {
    // A mask could as well be applied after the ReLU, but then a tape would keep two tensors of
    // this width, not one.
    const auto by_sample = hidden.view({mask.size(0), -1, mask.size(2)});
    hidden =
        (at::GradMode::is_enabled() ? by_sample * mask : by_sample.mul_(mask)).view(hidden.sizes());
  }
  return at::addmm(outer_bias, hidden.relu_(), outer).view({x.size(0), x.size(1), -1});
}

}  // namespace reference

namespace {

/// The gradients in operations that can be differentiated again. The ReLU and the mask are a factor
/// that is constant where it has a derivative.
FeedForwardGradients differentiable_feed_forward(const at::Tensor& g, const at::Tensor& x,
                                                 const at::Tensor& hidden,
                                                 const FeedForwardWeights& weights,
                                                 const at::Tensor& mask, bool with_weights) {
  const auto rows = x.flatten(0, 1), pull = g.flatten(0, 1);
  auto factor = hidden.gt(0).to(x.scalar_type());
  if (mask.defined()) {
    factor = (factor.view({mask.size(0), -1, mask.size(2)}) * mask).view(hidden.sizes());
  }
  const auto inner = affine(pull, weights.outer.t()) * factor;
  FeedForwardGradients result{.for_x = affine(inner, weights.inner.t()).view(x.sizes())};
  if (!with_weights) return result;
  const auto again = affine(rows, weights.inner, weights.inner_bias) * factor;
  result.for_inner = affine(rows.t(), inner);
  result.for_inner_bias = inner.sum(0);
  result.for_outer = affine(again.t(), pull);
  result.for_outer_bias = pull.sum(0);
  return result;
}

struct FeedForward : torch::autograd::Function<FeedForward> {
  enum Input : size_t { kX, kInner, kInnerBias, kOuter, kOuterBias };

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& inner, const at::Tensor& inner_bias,
                            const at::Tensor& outer, const at::Tensor& outer_bias,
                            const OptionalTensor& mask) {
    const auto factors = mask.value_or(at::Tensor());
    const FeedForwardWeights weights{inner, inner_bias, outer, outer_bias};
    at::Tensor hidden, y;
    if (x.is_cpu()) {
      hidden = empty_reused({x.size(0) * x.size(1), inner.size(1)}, x.options());
      y = cpu::feed_forward(x, weights, factors, hidden);
    } else {
      y = tensor_cores::feed_forward(x, weights, factors, hidden);
    }
    context->save_for_backward({x, inner, inner_bias, outer, outer_bias, factors, hidden});
    return y;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const FeedForwardWeights weights{saved[kInner], saved[kInnerBias], saved[kOuter],
                                     saved[kOuterBias]};
    const auto &x = saved[kX], &mask = saved[5], &hidden = saved[6], &g = gradients[0];
    bool with_weights = false;
    for (const auto input : {kInner, kInnerBias, kOuter, kOuterBias}) {
      with_weights = with_weights || context->needs_input_grad(input);
    }
    const auto plain_backward =
        x.is_cpu() ? cpu::feed_forward_backward : tensor_cores::feed_forward_backward;
    const auto backward = at::GradMode::is_enabled() ? differentiable_feed_forward : plain_backward;
    const auto result = backward(g, x, hidden, weights, mask, with_weights);
    return {result.for_x,     result.for_inner,      result.for_inner_bias,
            result.for_outer, result.for_outer_bias, at::Tensor()};
  }
};

}  // namespace

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask) {
  const bool on_gpu = tensor_cores::feed_forward_serves(x, weights);
  if (!on_gpu && !cpu::feed_forward_serves(x, weights)) {
    return reference::feed_forward(x, weights, mask);
  }
  // Autocast would cast inside, where the backward does not see it.
  const auto rows = x.to(weights.inner.scalar_type());
  if (!at::GradMode::is_enabled()) {
    at::Tensor hidden;
    return on_gpu ? tensor_cores::feed_forward(rows, weights, mask, hidden)
                  : cpu::feed_forward(rows, weights, mask, {});
  }
  return FeedForward::apply(rows, weights.inner, weights.inner_bias, weights.outer,
                            weights.outer_bias, as_optional(mask));
}

}  // namespace deq::kernels
