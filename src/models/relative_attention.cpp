#include "models/relative_attention.h"

#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

namespace deq {
namespace {

/// The columns that rows of the product have beyond the k distances. One is needed for the shift;
/// GPUs multiply matrices faster whose rows are multiples of eight numbers.
int64_t padding(const torch::Tensor& projected) {
  constexpr int64_t kRow = 8;
  return projected.is_cuda() ? kRow - projected.size(0) % kRow : 1;
}

/// Rows i of [n, q, k'] begin at their column q − 1 − i; the first k columns of that, as a view:
/// rows that are one number shorter begin one place further left each time.
torch::Tensor shifted(const torch::Tensor& scores, int64_t keys) {
  const auto n = scores.size(0), queries = scores.size(1), row = scores.size(2) - 1;
  return scores.view({n, -1})
      .narrow(1, queries - 1, queries * row)
      .view({n, queries, row})
      .narrow(2, 0, keys);
}

}  // namespace

torch::Tensor position_keys(const torch::Tensor& projected, int64_t heads) {
  const auto keys = projected.view({projected.size(0), heads, -1}).permute({1, 2, 0});
  return at::constant_pad_nd(keys, {0, padding(projected)});
}

torch::Tensor attention_mask(int64_t queries, int64_t keys, int64_t horizon, torch::Device device) {
  const bool limited = horizon > 0 && keys > horizon;
  if (queries == 1 && !limited) return {};
  const auto all = torch::ones({queries, keys}, torch::dtype(torch::kBool).device(device));
  const auto own = keys - queries;  // the column of the first query itself
  const auto ahead = all.triu(own + 1);
  return limited ? ahead.logical_or(all.tril(own - horizon)) : ahead;
}

torch::Tensor attend(const torch::Tensor& queries, const torch::Tensor& keys_values,
                     const AttentionTerms& terms) {
  const auto batch = queries.size(0), length = queries.size(1);
  const auto heads = queries.size(2), width = queries.size(3);
  const auto keys = keys_values.size(3);
  const auto flat = keys_values.view({2, heads * batch, keys, width});

  const auto by_content =
      (queries + terms.content_bias).permute({2, 0, 1, 3}).reshape({heads * batch, length, width});
  const auto by_position =
      (queries + terms.position_bias).permute({2, 0, 1, 3}).reshape({heads, batch * length, width});
  const auto places =
      at::bmm(by_position, terms.positions).view({heads * batch, length, terms.positions.size(2)});
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  auto scores = at::baddbmm(shifted(places, keys), by_content, flat[0].transpose(1, 2),
                            /*beta=*/scale, /*alpha=*/scale);
  if (terms.mask.defined()) {
    scores.masked_fill_(terms.mask, -std::numeric_limits<double>::infinity());
  }
  auto probabilities = at::softmax(scores, -1);
  if (terms.dropout.defined()) probabilities = probabilities * terms.dropout;
  return at::bmm(probabilities, flat[1])
      .view({heads, batch, length, width})
      .permute({1, 2, 0, 3})
      .reshape({batch, length, heads * width});
}

}  // namespace deq
