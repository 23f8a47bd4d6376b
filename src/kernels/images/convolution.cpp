#include "kernels/images/convolution.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/autograd.h>

#include <array>
#include <optional>

#include "kernels/common/operators.h"

namespace deq::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

tensor_list torchs_backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& w,
                            int64_t stride, bool for_x, bool for_w) {
  const auto padding = w.size(2) / 2;
  const auto result = at::convolution_backward(
      g, x, w, /*bias_sizes=*/c10::nullopt, {stride, stride}, {padding, padding},
      /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
      /*output_mask=*/{for_x, for_w, false});
  return {std::get<0>(result), std::get<1>(result)};
}

/// y = x ⋆ w is linear in both: the gradient for x is the same function again, with the weights
/// turned; the gradient for w is torch's.
struct Convolution3x3 : torch::autograd::Function<Convolution3x3> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            const OptionalTensor& known) {
    context->save_for_backward({x, w});
    return known ? known->detach() : cpu::winograd3x3(x, w);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1], &g = gradients[0];
    at::Tensor for_x, for_w;
    if (context->needs_input_grad(0)) for_x = convolution(g, turned(w));
    if (context->needs_input_grad(1)) for_w = convolution_weight_gradient(g, x, w);
    return {for_x, for_w, at::Tensor()};
  }
};

/// torch's. When that is differentiated twice it convolves images with images, which is slow; here
/// the gradient for x is a transposed convolution, whose derivatives are those of any convolution.
struct TorchConvolution : torch::autograd::Function<TorchConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            int64_t stride) {
    context->save_for_backward({x, w});
    context->saved_data["stride"] = stride;
    return at::conv2d(x, w, /*bias=*/{}, stride, /*padding=*/w.size(2) / 2);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1], &g = gradients[0];
    const auto stride = context->saved_data["stride"].toInt();
    const bool wants_x = context->needs_input_grad(0), wants_w = context->needs_input_grad(1);
    if (!at::GradMode::is_enabled()) {
      const auto plain = torchs_backward(g, x, w, stride, wants_x, wants_w);
      return {plain[0], plain[1], at::Tensor()};
    }
    at::Tensor for_x, for_w;
    if (wants_x) {
      const auto padding = w.size(2) / 2;
      const auto left_over = [&](int64_t d) {  // rows that a stride of more than one passes over
        return x.size(d) - ((g.size(d) - 1) * stride - 2 * padding + w.size(d));
      };
      for_x = at::convolution(g, w, /*bias=*/{}, {stride, stride}, {padding, padding},
                              /*dilation=*/{1, 1}, /*transposed=*/true,
                              /*output_padding=*/{left_over(2), left_over(3)}, /*groups=*/1);
    }
    if (wants_w) for_w = torchs_backward(g, x, w, stride, false, true)[1];
    return {for_x, for_w, at::Tensor()};
  }
};

}  // namespace

at::Tensor known_convolution(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y) {
  return Convolution3x3::apply(x, w, y);
}

at::Tensor turned(const at::Tensor& w) {
  return w.flip({2, 3}).transpose(0, 1);
}

at::Tensor convolution_weight_gradient(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& w) {
  return torchs_backward(g, x, w, /*stride=*/1, /*for_x=*/false, /*for_w=*/true)[1];
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, int64_t stride) {
  if (cpu::winograd_serves(x, w, stride)) return Convolution3x3::apply(x, w, std::nullopt);
  // Autocast would cast inside, where the backward does not see it.
  return TorchConvolution::apply(x.to(w.scalar_type()), w, stride);
}

}  // namespace deq::kernels
