#include "kernels/feed_forward/token_mixer.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/common/plain_gradients.h"
#include "kernels/feed_forward/swiglu.h"
#include "kernels/norms/sum_norm.h"

namespace deq::kernels {

namespace reference {

at::Tensor mix_tokens(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down) {
  const auto mixed = reference::swiglu(x, gate_up, down, Over::Tokens);
  return std::get<0>(reference::sum_norm(x, mixed, Over::Tokens));
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

MixedTokens call_mix_tokens(const at::Tensor& x, const at::Tensor& gate_up,
                            const at::Tensor& down) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<MixedTokens(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
          "deq::mix_tokens");
  return op.call(x, gate_up, down);
}

MixedGradients call_mix_tokens_backward(const at::Tensor& for_s, const at::Tensor& x,
                                        const at::Tensor& gate_up, const at::Tensor& down) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<MixedGradients(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&)>("deq::mix_tokens_backward");
  return op.call(for_s, x, gate_up, down);
}

bool call_mix_tokens_fits(const at::Tensor& x, int64_t inner) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<bool(const at::Tensor&, int64_t)>("deq::mix_tokens_fits");
  return op.call(x, inner);
}

struct TokenMixer : torch::autograd::Function<TokenMixer> {
  enum Saved : size_t { kX, kGateUp, kDown, kY, kR };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& gate_up, const at::Tensor& down) {
    const auto [y, r] = call_mix_tokens(x, gate_up, down);
    context->save_for_backward({x, gate_up, down, y, r});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[kX], &gate_up = saved[kGateUp], &down = saved[kDown];
    if (at::GradMode::is_enabled()) {
      return plain_gradients(*context, {x, gate_up, down}, gradients, [](const tensor_list& v) {
        return reference::mix_tokens(v[0], v[1], v[2]);
      });
    }
    const auto for_s = sum_norm_backward(gradients[0], saved[kY], saved[kR], Over::Tokens);
    const auto [for_x, for_both, hidden] = call_mix_tokens_backward(for_s, x, gate_up, down);
    tensor_list result{for_x, {}, {}};
    if (context->needs_input_grad(kGateUp)) {
      result[kGateUp] = matrix_gradient(for_both, x, Over::Tokens);
    }
    if (context->needs_input_grad(kDown)) {
      result[kDown] = matrix_gradient(for_s, hidden, Over::Tokens);
    }
    return result;
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("mix_tokens(Tensor x, Tensor gate_up, Tensor down) -> (Tensor, Tensor)");
  library.def(
      "mix_tokens_backward(Tensor for_s, Tensor x, Tensor gate_up, Tensor down) -> (Tensor, "
      "Tensor, Tensor)");
  library.def("mix_tokens_fits(Tensor x, int inner) -> bool");
}

bool mix_tokens_serves(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down) {
  const auto is_narrow = [](const at::Tensor& t) {
    return t.is_cuda() && t.scalar_type() == at::kBFloat16;
  };
  return x.dim() == 3 && is_narrow(x) && is_narrow(gate_up) && is_narrow(down) &&
         call_mix_tokens_fits(x, down.size(1));
}

at::Tensor mix_tokens(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down) {
  if (!mix_tokens_serves(x, gate_up, down)) {
    return sum_norm(x, swiglu(x, gate_up, down, Over::Tokens), Over::Tokens);
  }
  if (!at::GradMode::is_enabled()) return std::get<0>(call_mix_tokens(x, gate_up, down));
  return TokenMixer::apply(x, gate_up, down);
}

}  // namespace deq::kernels
