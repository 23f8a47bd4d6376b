#include "kernels/feed_forward/swiglu.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "core/autocast.h"
#include "kernels/common/affine.h"
#include "kernels/common/plain_gradients.h"
#include "kernels/common/product.h"
#include "kernels/feed_forward/gate.h"

namespace deq::kernels {

namespace reference {

at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                  Over over) {
  if (over == Over::Tokens) return at::matmul(down, reference::gate(at::matmul(gate_up, x), over));
  return at::linear(reference::gate(at::linear(x, gate_up), over), down);
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// M·x, of every token or of every sample.
at::Tensor multiplied(const at::Tensor& matrix, const at::Tensor& x, Over over) {
  if (over == Over::Tokens) {
    return products(matrix.expand({x.size(0), matrix.size(0), matrix.size(1)}), x);
  }
  return affine(x.flatten(0, 1), matrix.t()).view({x.size(0), x.size(1), matrix.size(0)});
}

}  // namespace

at::Tensor matrix_gradient(const at::Tensor& g, const at::Tensor& x, Over over) {
  if (over == Over::Features) return affine(g.flatten(0, 1).t(), x.flatten(0, 1));
  // The longer side last: its rows begin where a GPU writes them fastest, whatever the other is.
  if (x.size(1) < g.size(1)) return summed_products(x, g.transpose(1, 2)).t();
  return summed_products(g, x.transpose(1, 2));
}

namespace {

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  enum Saved : size_t { kX, kGateUp, kDown, kBoth };
  static constexpr size_t kArguments = 5;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& gate_up, const at::Tensor& down, int64_t along,
                            bool keeps) {
    const auto over = static_cast<Over>(along);
    const auto both = multiplied(gate_up, x, over);
    context->save_for_backward({x, gate_up, down, keeps ? both : at::Tensor()});
    context->saved_data["over"] = along;
    return multiplied(down, gate(both, over), over);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto over = static_cast<Over>(context->saved_data["over"].toInt());
    const auto &x = saved[kX], &gate_up = saved[kGateUp], &down = saved[kDown];
    if (at::GradMode::is_enabled()) {
      auto result = plain_gradients(
          *context, {x, gate_up, down}, gradients,
          [over](const tensor_list& v) { return reference::swiglu(v[0], v[1], v[2], over); });
      result.resize(kArguments);
      return result;
    }
    const auto g = gradients[0].contiguous();
    const auto both = saved[kBoth].defined() ? saved[kBoth] : multiplied(gate_up, x, over);
    const auto [for_both, hidden] = gate_backward(multiplied(down.t(), g, over), both, over);
    tensor_list result(kArguments);
    if (context->needs_input_grad(kX)) result[kX] = multiplied(gate_up.t(), for_both, over);
    if (context->needs_input_grad(kGateUp)) result[kGateUp] = matrix_gradient(for_both, x, over);
    if (context->needs_input_grad(kDown)) result[kDown] = matrix_gradient(g, hidden, over);
    return result;
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down, Over over,
                  Between between) {
  // Autocast would cast inside, where the backward does not see it.
  const auto type = compute_type(gate_up);
  const auto rows = x.to(type), in = gate_up.to(type), out = down.to(type);
  if (at::GradMode::is_enabled()) {
    return SwiGlu::apply(rows, in, out, static_cast<int64_t>(over), between == Between::Kept);
  }
  return multiplied(out, gate(multiplied(in, rows, over), over), over);
}

}  // namespace deq::kernels
