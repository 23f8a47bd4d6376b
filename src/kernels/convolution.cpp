#include "kernels/convolution.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/autograd.h>

namespace deq::kernels {
namespace {

/// y = x ⋆ w is linear in both: the gradient for x is ∂y ⋆ w turned by 180° with its channels
/// exchanged, the same function again; the gradient for w is torch's.
struct Convolution3x3 : torch::autograd::Function<Convolution3x3> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w) {
    context->save_for_backward({x, w});
    return cpu::winograd3x3(x, w);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1], &g = gradients[0];
    at::Tensor for_x, for_w;
    if (context->needs_input_grad(0)) for_x = convolution3x3(g, w.flip({2, 3}).transpose(0, 1));
    if (context->needs_input_grad(1)) {
      for_w = std::get<1>(at::convolution_backward(
          g, x, w, /*bias_sizes=*/c10::nullopt, /*stride=*/{1, 1}, /*padding=*/{1, 1},
          /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
          /*output_mask=*/{false, true, false}));
    }
    return {for_x, for_w};
  }
};

}  // namespace

at::Tensor convolution3x3(const at::Tensor& x, const at::Tensor& w) {
  if (cpu::winograd_serves(x, w)) return Convolution3x3::apply(x, w);
  return at::conv2d(x, w, /*bias=*/{}, /*stride=*/1, /*padding=*/1);
}

}  // namespace deq::kernels
