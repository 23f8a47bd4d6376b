#include "kernels/common/affine.h"

#include <ATen/ExpandUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/autograd.h>

#include <vector>

#include "kernels/common/block_cache.h"
#include "kernels/common/operators.h"
#include "kernels/common/product.h"

namespace deq::kernels {
namespace {

bool serves(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const bool adds = !b.defined() || (b.is_cpu() && b.scalar_type() == at::kFloat && b.dim() > 0);
  return adds && cpu::own_products_pay() && cpu::own_product_serves(x, w) &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor own_affine(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  auto y = empty_reused({x.size(0), w.size(1)}, x.options());
  if (b.defined()) y.copy_(b.expand_as(y));
  multiply_in_parallel(y, x, w, /*add=*/b.defined());
  return y;
}

struct Affine : torch::autograd::Function<Affine> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w, const OptionalTensor& b) {
    context->save_for_backward({x, w});
    context->saved_data["shape_of_b"] = b ? b->sizes().vec() : std::vector<int64_t>();
    return own_affine(x, w, b.value_or(at::Tensor()));
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1], &g = gradients[0];
    at::Tensor for_x, for_w, for_b;
    if (context->needs_input_grad(0)) for_x = affine(g, w.t());
    if (context->needs_input_grad(1)) {  // in the order of w, which may be a parameter turned
      for_w = w.stride(0) == 1 ? affine(g.t(), x).t() : affine(x.t(), g);
    }
    const auto shape_of_b = context->saved_data["shape_of_b"].toIntVector();
    if (!shape_of_b.empty() && context->needs_input_grad(2)) for_b = at::sum_to(g, shape_of_b);
    return {for_x, for_w, for_b};
  }
};

}  // namespace

at::Tensor affine(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  if (!serves(x, w, b)) return b.defined() ? at::addmm(b, x, w) : at::mm(x, w);
  if (at::GradMode::is_enabled()) return Affine::apply(x, w, as_optional(b));
  const WithoutGradients guard;
  return own_affine(x, w, b);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& b) {
  const bool may_pay = x.is_cpu() && x.dim() >= 2 && cpu::own_products_pay();
  const auto rows = may_pay ? x.flatten(0, -2) : at::Tensor();  // a copy where x has gaps
  if (!may_pay || !serves(rows, weight.t(), b)) return at::linear(x, weight, as_optional(b));
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return affine(rows, weight.t(), b).view(sizes);
}

}  // namespace deq::kernels
