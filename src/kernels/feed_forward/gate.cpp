#include "kernels/feed_forward/gate.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <vector>

#include "kernels/common/operators.h"

namespace deq::kernels {
namespace {

int64_t halved_dimension(Over over) {
  return over == Over::Features ? 2 : 1;
}

/// Halves along the tokens are halves of a sample, along the features of a token.
int64_t rows_of(const at::Tensor& both, Over over) {
  return over == Over::Features ? both.size(0) * both.size(1) : both.size(0);
}

bool gate_serves(const at::Tensor& both) {
  const auto type = both.scalar_type();
  const bool exact = type == at::kFloat || type == at::kDouble;
  return both.is_cuda() ? exact || type == at::kBFloat16 : both.is_cpu() && exact;
}

}  // namespace

namespace reference {

at::Tensor gate(const at::Tensor& both, Over over) {
  const auto halves = both.chunk(2, halved_dimension(over));
  return at::silu(halves[0]) * halves[1];
}

}  // namespace reference

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("gate(Tensor both, int[] shape, int rows) -> Tensor");
  library.def("gate_backward(Tensor g, Tensor both, int rows) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("gate", &cpu::gate);
  library.impl("gate_backward", &cpu::gate_backward);
}

at::Tensor gate(const at::Tensor& both, Over over) {
  if (!gate_serves(both)) return reference::gate(both, over);
  auto shape = both.sizes().vec();
  shape[static_cast<size_t>(halved_dimension(over))] /= 2;
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::gate)>("deq::gate");
  return op.call(both.contiguous(), shape, rows_of(both, over));
}

GateGradients gate_backward(const at::Tensor& g, const at::Tensor& both, Over over) {
  if (!gate_serves(both)) {
    const at::AutoGradMode tape(true);
    const auto leaf = both.detach().requires_grad_();
    const auto h = reference::gate(leaf, over);
    return {torch::autograd::grad({h}, {leaf}, {g})[0], h.detach()};
  }
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::gate_backward)>("deq::gate_backward");
  return op.call(g.contiguous(), both.contiguous(), rows_of(both, over));
}

}  // namespace deq::kernels
