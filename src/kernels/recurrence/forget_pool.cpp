#include "kernels/recurrence/forget_pool.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/common/plain_gradients.h"

namespace deq::kernels {
namespace {

/// The type of states.
at::ScalarType state_type(const at::Tensor& y) {
  return y.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool forget_pool_serves(const at::Tensor& y) {
  const auto type = y.scalar_type();
  const bool exact = type == at::kFloat || type == at::kDouble;
  return y.is_cuda() ? exact || type == at::kBFloat16 : y.is_cpu() && exact;
}

}  // namespace

namespace reference {

ForgetPool forget_pool(const at::Tensor& y, const at::Tensor& start) {
  const auto parts = y.to(state_type(y)).chunk(3, -1);
  const auto o = parts[2].sigmoid();
  // Unbound, or the gradient of each position would be a tensor as large as all.
  const auto z = parts[0].tanh().unbind(1), f = parts[1].sigmoid().unbind(1);
  auto c = start;
  std::vector<at::Tensor> states;
  for (size_t t = 0; t < z.size(); ++t) {
    c = f[t] * c + (1 - f[t]) * z[t];
    states.push_back(c);
  }
  if (states.empty()) return {.h = o.to(y.scalar_type()), .c = c};
  return {.h = (o * at::stack(states, 1)).to(y.scalar_type()), .c = c};
}

}  // namespace reference

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("forget_pool(Tensor y, Tensor start) -> (Tensor, Tensor)");
  library.def(
      "forget_pool_backward(Tensor g, Tensor g_last, Tensor y, Tensor start, Tensor c) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("forget_pool", &cpu::forget_pool);
  library.impl("forget_pool_backward", &cpu::forget_pool_backward);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

std::tuple<at::Tensor, at::Tensor> call_forget_pool(const at::Tensor& y, const at::Tensor& start) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::forget_pool)>("deq::forget_pool");
  return op.call(y.contiguous(), start.contiguous());
}

/// A copy: who keeps it should not keep the others.
at::Tensor last_state(const at::Tensor& c, const at::Tensor& start) {
  return (c.size(1) == 0 ? start : c.select(1, -1)).clone(at::MemoryFormat::Contiguous);
}

struct ForgetPoolNode : torch::autograd::Function<ForgetPoolNode> {
  enum Saved : size_t { kY, kStart, kStates };

  static tensor_list forward(AutogradContext* context, const at::Tensor& y,
                             const at::Tensor& start) {
    const auto [h, c] = call_forget_pool(y, start);
    context->save_for_backward({y, start, c});
    return {h, last_state(c, start)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    if (at::GradMode::is_enabled()) {
      // h and the last c as one tensor, of which there is a plain version.
      const auto together = [](const at::Tensor& h, const at::Tensor& c) {
        return at::cat({h.to(c.scalar_type()), c.unsqueeze(1)}, 1);
      };
      return plain_gradients(*context, {saved[kY], saved[kStart]},
                             {together(gradients[0], gradients[1])},
                             [&together](const tensor_list& v) {
                               const auto [h, c] = reference::forget_pool(v[0], v[1]);
                               return together(h, c);
                             });
    }
    const at::AutoDispatchBelowAutograd below_autograd;
    static const auto op =
        find_operator<decltype(cpu::forget_pool_backward)>("deq::forget_pool_backward");
    const auto [for_y, for_start] =
        op.call(gradients[0].contiguous(), gradients[1].contiguous(), saved[kY].contiguous(),
                saved[kStart].contiguous(), saved[kStates]);
    return {for_y, for_start};
  }
};

}  // namespace

ForgetPool forget_pool(const at::Tensor& y, const at::Tensor& start) {
  const auto rows = y.is_cpu() ? y.to(state_type(y)) : y;
  const auto from = start.to(state_type(rows));
  if (!forget_pool_serves(rows)) return reference::forget_pool(rows, from);
  if (!at::GradMode::is_enabled()) {
    const auto [h, c] = call_forget_pool(rows, from);
    return {.h = h, .c = last_state(c, from)};
  }
  const auto both = ForgetPoolNode::apply(rows, from);
  return {.h = both[0], .c = both[1]};
}

}  // namespace deq::kernels
