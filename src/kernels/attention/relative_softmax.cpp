#include "kernels/attention/relative_softmax.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <limits>

#include "kernels/common/operators.h"

namespace deq::kernels {

namespace reference {

at::Tensor shifted(const at::Tensor& distances, int64_t keys) {
  // Rows that are one number shorter begin one column further left each time.
  const auto n = distances.size(0), queries = distances.size(1), row = distances.size(2) - 1;
  return distances.view({n, -1})
      .narrow(1, queries - 1, queries * row)
      .view({n, queries, row})
      .narrow(2, 0, keys);
}

at::Tensor relative_softmax(const at::Tensor& content, const at::Tensor& distances,
                            const SoftmaxTerms& terms) {
  auto scores = (content + shifted(distances, content.size(2))) * terms.scale;
  if (terms.mask.defined()) {
    scores = scores.masked_fill(terms.mask, -std::numeric_limits<double>::infinity());
  }
  // Autocast would make float32 of it, which it is inside anyway.
  const auto probabilities = at::_softmax(scores, -1, /*half_to_float=*/false);
  return terms.dropout.defined() ? probabilities * terms.dropout : probabilities;
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr int64_t kMostKeys = 2048;  // a warp holds a row in its registers

OptionalTensor dense_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor.contiguous()) : std::nullopt;
}

/// p before and after dropout; the same without one.
std::tuple<at::Tensor, at::Tensor> call_relative_softmax(const at::Tensor& content,
                                                         const at::Tensor& distances,
                                                         const SoftmaxTerms& terms) {
  using Signature = std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const OptionalTensor&, double, int64_t, int64_t);
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<Signature>("deq::relative_softmax");
  const auto [probabilities, dropped] =
      op.call(content.contiguous(), distances.contiguous(), dense_or_none(terms.dropout),
              terms.scale, terms.horizon, terms.hidden);
  return {probabilities, terms.dropout.defined() ? dropped : probabilities};
}

/// For c and t.
std::tuple<at::Tensor, at::Tensor> call_relative_softmax_backward(const at::Tensor& g,
                                                                  const at::Tensor& probabilities,
                                                                  const SoftmaxTerms& terms,
                                                                  int64_t columns) {
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&,
                                                       const OptionalTensor&, double, int64_t);
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<Signature>("deq::relative_softmax_backward");
  return op.call(g.contiguous(), probabilities, dense_or_none(terms.dropout), terms.scale, columns);
}

struct RelativeSoftmax : torch::autograd::Function<RelativeSoftmax> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& content,
                            const at::Tensor& distances, const OptionalTensor& dropout,
                            const OptionalTensor& mask, double scale, int64_t horizon,
                            int64_t hidden) {
    const SoftmaxTerms terms{.scale = scale,
                             .horizon = horizon,
                             .hidden = hidden,
                             .dropout = dropout.value_or(at::Tensor()),
                             .mask = mask.value_or(at::Tensor())};
    const auto [probabilities, dropped] = call_relative_softmax(content, distances, terms);
    context->save_for_backward({content, distances, terms.dropout, terms.mask, probabilities});
    context->saved_data["scale"] = scale;
    return dropped;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    // Backward the probabilities say who sees whom.
    const SoftmaxTerms terms{
        .scale = context->saved_data["scale"].toDouble(), .dropout = saved[2], .mask = saved[3]};
    tensor_list result(7);
    if (at::GradMode::is_enabled()) {
      // Through the plain version, so that it can be differentiated again.
      const auto plain = reference::relative_softmax(saved[0], saved[1], terms);
      const auto found = torch::autograd::grad({plain}, {saved[0], saved[1]}, {gradients[0]},
                                               /*retain_graph=*/true, /*create_graph=*/true);
      result[0] = found[0];
      result[1] = found[1];
    } else {
      std::tie(result[0], result[1]) =
          call_relative_softmax_backward(gradients[0], saved[4], terms, saved[1].size(2));
    }
    return result;
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def(
      "relative_softmax(Tensor content, Tensor distances, Tensor? dropout, float scale, int "
      "horizon, int hidden) -> (Tensor, Tensor)");
  library.def(
      "relative_softmax_backward(Tensor g, Tensor probabilities, Tensor? dropout, float scale, "
      "int columns) -> (Tensor, Tensor)");
}

bool relative_softmax_serves(const at::Tensor& content, const at::Tensor& distances) {
  const auto type = content.scalar_type();
  const bool typed = type == at::kFloat || type == at::kDouble || type == at::kBFloat16;
  return content.is_cuda() && typed && distances.scalar_type() == type &&
         content.size(2) <= kMostKeys;
}

at::Tensor relative_softmax(const at::Tensor& content, const at::Tensor& distances,
                            const SoftmaxTerms& terms) {
  if (!relative_softmax_serves(content, distances)) {
    return reference::relative_softmax(content, distances, terms);
  }
  if (!at::GradMode::is_enabled())
    return std::get<1>(call_relative_softmax(content, distances, terms));
  return RelativeSoftmax::apply(content, distances, as_optional(terms.dropout),
                                as_optional(terms.mask), terms.scale, terms.horizon, terms.hidden);
}

}  // namespace deq::kernels
