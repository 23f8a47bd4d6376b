#include "kernels/norms/sum_norm.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/norms/sum_norm_plan.h"

namespace deq::kernels {
namespace {

int64_t normed_dimension(Over over) {
  return over == Over::Features ? -1 : -2;
}

}  // namespace

namespace reference {

SumNormOutputs sum_norm(const at::Tensor& a, const at::Tensor& b, Over over) {
  const auto type = a.scalar_type();
  const auto wide = a.element_size() < 4 ? at::kFloat : type;
  const auto s = a.to(wide) + b.to(wide);
  const auto r = at::rsqrt(s.square().mean(normed_dimension(over), /*keepdim=*/true) + kSumNormEps);
  return {(s * r).to(type), r};
}

at::Tensor sum_norm_backward(const at::Tensor& for_y, const at::Tensor& for_r, const at::Tensor& y,
                             const at::Tensor& r, Over over) {
  const auto type = y.scalar_type(), wide = r.scalar_type();
  const auto dim = normed_dimension(over);
  const auto normal = y.to(wide);
  // r depends on s as −r³ s / n, and s is y / r.
  auto for_s = at::zeros_like(normal);
  if (for_y.defined()) {
    const auto g = for_y.to(wide);
    for_s = r * (g - normal * (g * normal).mean(dim, /*keepdim=*/true));
  }
  if (for_r.defined()) {
    const auto n = static_cast<double>(y.size(dim));
    for_s = for_s - for_r * r.square() * normal / n;
  }
  return for_s.to(type);
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

SumNormOutputs call_sum_norm(const at::Tensor& a, const at::Tensor& b, Over over) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::sum_norm)>("deq::sum_norm");
  return op.call(a.contiguous(), b.contiguous(), over == Over::Tokens);
}

}  // namespace

at::Tensor sum_norm_backward(const at::Tensor& g, const at::Tensor& y, const at::Tensor& r,
                             Over over) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::sum_norm_backward)>("deq::sum_norm_backward");
  return op.call(g.contiguous(), y, r, over == Over::Tokens);
}

namespace {

/// r is an output too: the backward is a function of y and r, and when it is differentiated again,
/// what comes for r passes through here like what comes for y. Neither a nor b is kept.
struct SumNorm : torch::autograd::Function<SumNorm> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b,
                             int64_t over) {
    auto [y, r] = call_sum_norm(a, b, static_cast<Over>(over));
    context->set_materialize_grads(false);
    context->save_for_backward({y, r});
    context->saved_data["over"] = over;
    return {y, r};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto over = static_cast<Over>(context->saved_data["over"].toInt());
    const auto &for_y = gradients[0], &for_r = gradients[1];
    if (!for_y.defined() && !for_r.defined()) return tensor_list(3);
    const bool plain = at::GradMode::is_enabled() || for_r.defined();
    const auto for_s = plain ? reference::sum_norm_backward(for_y, for_r, saved[0], saved[1], over)
                             : sum_norm_backward(for_y, saved[0], saved[1], over);
    return {for_s, for_s, at::Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("sum_norm(Tensor a, Tensor b, bool over_tokens) -> (Tensor, Tensor)");
  library.def("sum_norm_backward(Tensor g, Tensor y, Tensor r, bool over_tokens) -> Tensor");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("sum_norm", &cpu::sum_norm);
  library.impl("sum_norm_backward", &cpu::sum_norm_backward);
}

bool sum_norm_serves(const at::Tensor& a, const at::Tensor& b, Over over) {
  const auto type = a.scalar_type();
  const bool narrow = a.is_cuda() && type == at::kBFloat16;
  if (type != at::kFloat && type != at::kDouble && !narrow) return false;
  if (a.dim() != 3 || a.sizes() != b.sizes() || b.scalar_type() != type) return false;
  if (!a.is_cuda()) return a.is_cpu();
  return over == Over::Features ? cuda::features_fit(a.size(2), a.element_size())
                                : cuda::tokens_fit(a.size(1));
}

at::Tensor sum_norm(const at::Tensor& a, const at::Tensor& b, Over over) {
  if (!sum_norm_serves(a, b, over)) return std::get<0>(reference::sum_norm(a, b, over));
  if (!at::GradMode::is_enabled()) return std::get<0>(call_sum_norm(a, b, over));
  return SumNorm::apply(a, b, static_cast<int64_t>(over))[0];
}

}  // namespace deq::kernels
