#pragma once

#include <torch/autograd.h>

namespace deq::kernels {

/// The gradients of plain(inputs), an operation's plain version, by autograd and with a graph, so
/// that they can be differentiated again. Those that the operation's node is not asked for are
/// undefined.
template <class Plain>
torch::autograd::tensor_list plain_gradients(const torch::autograd::AutogradContext& context,
                                             const torch::autograd::tensor_list& inputs,
                                             const torch::autograd::tensor_list& for_plain,
                                             const Plain& plain) {
  // By other names: an input may depend on another one, a state on the weights that made it, and
  // autograd would count that too.
  torch::autograd::tensor_list named, wanted, all(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    named.push_back(inputs[i].view_as(inputs[i]));
    if (context.needs_input_grad(i)) wanted.push_back(named.back());
  }
  const auto found = torch::autograd::grad({plain(named)}, wanted, for_plain,
                                           /*retain_graph=*/true, /*create_graph=*/true);
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (context.needs_input_grad(i)) all[i] = found[next++];
  }
  return all;
}

}  // namespace deq::kernels
