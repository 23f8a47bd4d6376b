#include "kernels/attention/relative_attention.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>

#include "kernels/attention/relative_softmax.h"
#include "kernels/common/operators.h"

namespace deq::kernels {
namespace {

/// The columns that rows of the product have beyond the k distances. One is needed for the shift;
/// GPUs multiply matrices faster whose rows are multiples of eight numbers.
int64_t padding(int64_t keys, bool aligned) {
  constexpr int64_t kRow = 8;
  return aligned ? kRow - keys % kRow : 1;
}

}  // namespace

at::Tensor position_keys(const at::Tensor& projected, int64_t heads, int64_t hidden) {
  const auto keys = projected.view({projected.size(0), heads, -1}).permute({1, 2, 0});
  const auto columns = hidden + projected.size(0);
  return at::constant_pad_nd(keys, {hidden, padding(columns, projected.is_cuda())});
}

at::Tensor attention_mask(int64_t queries, int64_t keys, int64_t horizon, at::Device device,
                          int64_t hidden) {
  const bool limited = horizon > 0 && keys > horizon;
  if (queries == 1 && !limited && hidden == 0) return {};
  const auto all = at::ones({queries, keys}, at::TensorOptions().dtype(at::kBool).device(device));
  const auto own = keys - queries;  // the column of the first query itself
  auto unseen = all.triu(own + 1);
  if (limited) unseen = unseen.logical_or(all.tril(own - horizon));
  if (hidden > 0) unseen.narrow(1, 0, hidden).fill_(true);
  return unseen;
}

namespace {

/// With a product of matrices for all scores by distance; `weigh` makes probabilities of both
/// kinds.
template <class Weigh>
at::Tensor attend_with(const Weigh& weigh, const at::Tensor& qkv, int64_t queries,
                       const AttentionTerms& terms) {
  const auto batch = qkv.size(0), own = qkv.size(1), heads = qkv.size(3), width = qkv.size(4);
  const auto q = qkv.narrow(1, own - queries, queries).select(2, 0);
  // The heads first: [2, h, B, k, d].
  const auto own_keys_values = qkv.narrow(2, 1, 2).permute({2, 3, 0, 1, 4});
  const auto keys_values = terms.past.defined() ? at::cat({terms.past, own_keys_values}, 3)
                                                : own_keys_values.contiguous();
  const auto keys = keys_values.size(3);
  const auto flat = keys_values.view({2, heads * batch, keys, width});

  const auto by_content =
      (q + terms.content_bias).permute({2, 0, 1, 3}).reshape({heads * batch, queries, width});
  const auto by_position =
      (q + terms.position_bias).permute({2, 0, 1, 3}).reshape({heads, batch * queries, width});
  const auto distances =
      at::bmm(by_position, terms.positions).view({heads * batch, queries, terms.positions.size(2)});
  const auto numbers = terms.d_head > 0 ? terms.d_head : width;
  const SoftmaxTerms softmax{.scale = 1 / std::sqrt(static_cast<double>(numbers)),
                             .horizon = terms.horizon,
                             .hidden = terms.hidden,
                             .dropout = terms.dropout,
                             .mask = terms.mask};
  const auto content = at::bmm(by_content, flat[0].transpose(1, 2));
  const auto probabilities = weigh(content, distances, softmax);
  return at::bmm(probabilities, flat[1])
      .view({heads, batch, queries, width})
      .permute({1, 2, 0, 3})
      .reshape({batch, queries, heads * width});
}

}  // namespace

namespace reference {

at::Tensor attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms) {
  return attend_with(relative_softmax, qkv, queries, terms);
}

}  // namespace reference

namespace {

struct Attend : torch::autograd::Function<Attend> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& content_bias, const at::Tensor& position_bias,
                            const at::Tensor& positions, const OptionalTensor& past,
                            const OptionalTensor& dropout, const OptionalTensor& mask,
                            int64_t queries, int64_t horizon) {
    const AttentionTerms terms{.content_bias = content_bias,
                               .position_bias = position_bias,
                               .positions = positions,
                               .past = past.value_or(at::Tensor()),
                               .dropout = dropout.value_or(at::Tensor()),
                               .horizon = horizon,
                               .mask = mask.value_or(at::Tensor())};
    const auto result = cpu::attend(qkv, queries, terms, /*keep=*/true);
    context->save_for_backward({qkv, content_bias, position_bias, positions, terms.past,
                                terms.dropout, terms.mask, result.probabilities});
    context->saved_data["queries"] = queries;
    context->saved_data["horizon"] = horizon;
    return result.seen;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto queries = context->saved_data["queries"].toInt();
    const AttentionTerms terms{.content_bias = saved[1],
                               .position_bias = saved[2],
                               .positions = saved[3],
                               .past = saved[4],
                               .dropout = saved[5],
                               .horizon = context->saved_data["horizon"].toInt(),
                               .mask = saved[6]};
    const auto nothing = at::Tensor();
    torch::autograd::tensor_list result(9, nothing);
    if (at::GradMode::is_enabled()) {
      differentiable_backward(gradients[0], saved, queries, terms, result);
      return result;
    }
    bool with_terms = false;
    for (size_t input = 1; input < (terms.past.defined() ? 5U : 4U); ++input) {
      with_terms = with_terms || context->needs_input_grad(input);
    }
    auto own = cpu::attend_backward(gradients[0], saved[0], queries, terms, saved[7], with_terms);
    result[0] = std::move(own.for_qkv);
    result[1] = std::move(own.for_content_bias);
    result[2] = std::move(own.for_position_bias);
    result[3] = std::move(own.for_positions);
    result[4] = std::move(own.for_past);
    return result;
  }

  /// Through the plain version, so that it can be differentiated again.
  static void differentiable_backward(const at::Tensor& g,
                                      const torch::autograd::variable_list& saved, int64_t queries,
                                      const AttentionTerms& terms,
                                      torch::autograd::tensor_list& result) {
    const auto seen = reference::attend(saved[0], queries, terms);
    std::vector<size_t> wanted;
    torch::autograd::variable_list inputs;
    for (size_t i = 0; i < 5; ++i) {
      if (!saved[i].defined() || !saved[i].requires_grad()) continue;
      wanted.push_back(i);
      inputs.push_back(saved[i]);
    }
    const auto found = torch::autograd::grad({seen}, inputs, {g}, /*retain_graph=*/true,
                                             /*create_graph=*/true);
    for (size_t i = 0; i < wanted.size(); ++i) result[wanted[i]] = found[i];
  }
};

}  // namespace

at::Tensor attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms) {
  if (!cpu::attend_serves(qkv, terms)) {
    return attend_with(kernels::relative_softmax, qkv, queries, terms);
  }
  if (!at::GradMode::is_enabled()) return cpu::attend(qkv, queries, terms, /*keep=*/false).seen;
  return Attend::apply(qkv, terms.content_bias, terms.position_bias, terms.positions,
                       as_optional(terms.past), as_optional(terms.dropout), as_optional(terms.mask),
                       queries, terms.horizon);
}

}  // namespace deq::kernels
