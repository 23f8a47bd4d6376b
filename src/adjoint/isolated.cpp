#include "adjoint/isolated.h"

#include <torch/autograd.h>

#include <utility>

namespace deq {
namespace {

using Tensors = std::vector<torch::Tensor>;

Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// On copies of the arguments that have no history. What does not matter has a gradient of 0.
Tensors evaluated_gradients(const TensorMap& map, const Tensors& arguments, const Tensors& v,
                            const Tensors& leaves) {
  // Within such gradients, which are then of higher order. The arguments are copies already.
  const bool create_graph = torch::GradMode::is_enabled();
  const torch::AutoGradMode grad(true);
  Tensors copies;
  for (const auto& argument : arguments) {
    copies.push_back(create_graph ? argument : argument.detach().requires_grad_());
  }
  const auto all = map(copies);
  Tensors results, along;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].requires_grad()) continue;
    results.push_back(all[i]);
    along.push_back(v[i]);
  }
  const auto sources = joined(std::move(copies), leaves);
  Tensors gradients(sources.size());
  if (!results.empty()) {
    gradients = torch::autograd::grad(results, sources, along, /*retain_graph=*/true, create_graph,
                                      /*allow_unused=*/true);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = torch::zeros_like(sources[i]);
  }
  return gradients;
}

struct MapCapsule : torch::CustomClassHolder {
  explicit MapCapsule(TensorMap kept) : map(std::move(kept)) {}
  TensorMap map;
};

/// A map of its arguments and of the leaves of its graph, as one node that leads to all of them.
struct Isolated : torch::autograd::Function<Isolated> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const c10::intrusive_ptr<MapCapsule>& capsule,
                                                at::TensorList arguments, at::TensorList leaves) {
    context->saved_data["map"] = c10::IValue::make_capsule(capsule);
    context->saved_data["arguments"] = static_cast<int64_t>(arguments.size());
    context->save_for_backward(joined(arguments.vec(), leaves.vec()));
    Tensors results;
    for (const auto& result : capsule->map(arguments.vec())) results.push_back(result.detach());
    return results;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& v) {
    const auto capsule =
        c10::static_intrusive_pointer_cast<MapCapsule>(context->saved_data["map"].toCapsule());
    const auto saved = context->get_saved_variables();
    const auto split = saved.begin() + context->saved_data["arguments"].toInt();
    const Tensors arguments(saved.begin(), split), leaves(split, saved.end());
    auto gradients = torch::GradMode::is_enabled()
                         ? isolated_gradients(capsule->map, arguments, v, leaves)
                         : evaluated_gradients(capsule->map, arguments, v, leaves);
    gradients.insert(gradients.begin(), torch::Tensor());  // of the capsule
    return gradients;
  }
};

}  // namespace

std::vector<torch::Tensor> isolated_gradients(const TensorMap& map,
                                              const std::vector<torch::Tensor>& arguments,
                                              const std::vector<torch::Tensor>& v,
                                              const std::vector<torch::Tensor>& leaves) {
  const auto gradients = [map, leaves,
                          count = static_cast<int64_t>(arguments.size())](const Tensors& both) {
    return evaluated_gradients(map, {both.begin(), both.begin() + count},
                               {both.begin() + count, both.end()}, leaves);
  };
  const auto both = joined(arguments, v);
  return Isolated::apply(c10::make_intrusive<MapCapsule>(gradients), at::TensorList(both),
                         at::TensorList(leaves));
}

}  // namespace deq
