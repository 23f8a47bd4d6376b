#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "deq/core/cell.h"
#include "deq/models/transformer/options.h"
#include "models/transformer/context.h"

namespace deq::test {

/// The formula of a DEQ-Transformer's layer in plain torch, from the parameters by name: every
/// distance looked up by itself, nothing in place, nothing shared. Dropout masks are the context's.
struct PlainTransformer {
  models::TransformerOptions options;
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  std::string prefix{};  ///< of the layer's parameters

  const torch::Tensor& parameter(const std::string& name) const {
    return parameters[prefix + name];
  }

  torch::Tensor weight(const std::string& name) const {
    const auto* v = parameters.find(prefix + name + ".weight_v");
    if (v == nullptr) return parameter(name + ".weight").flatten(1);
    const auto rows = v->flatten(1);
    return parameter(name + ".weight_g").flatten(1) * rows / rows.square().sum(1, true).sqrt();
  }

  static torch::Tensor norm(const torch::Tensor& x) {
    const auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  }

  static torch::Tensor dropped(const torch::Tensor& x, const torch::Tensor& mask) {
    return mask.defined() ? x * mask : x;
  }

  /// `inputs` as TransformerCell has them.
  torch::Tensor step(const torch::Tensor& z, const Inputs& inputs, const Context& context) const {
    const auto batch = z.size(0), q = z.size(1), keys = inputs[1].size(0);
    const auto heads = options.heads, d = options.d_head;
    auto all = z, u = inputs[0];
    if (inputs.size() > 2) {
      all = torch::cat({inputs[2], z}, 1);
      u = torch::cat({inputs[3], u}, 1);
    }
    if (options.pre_ln) all = norm(all);
    const auto qkv =
        (all.matmul(weight("dec_attn.qkv_net").t()) + u).view({batch, keys, 3, heads, d});
    const auto query = qkv.slice(1, keys - q).select(2, 0);
    const auto r = inputs[1].mm(weight("dec_attn.r_net").t()).view({keys, heads, d});
    auto scores = torch::einsum("bihd,bjhd->bhij",
                                {query + parameter("dec_attn.r_w_bias"), qkv.select(2, 1)});
    const auto by_position = query + parameter("dec_attn.r_r_bias");
    std::vector<torch::Tensor> rows;
    auto seen = torch::zeros({q, keys}, torch::kBool);
    for (int64_t i = 0; i < q; ++i) {
      std::vector<torch::Tensor> row;
      for (int64_t j = 0; j < keys; ++j) {
        const auto distance = keys - q + i - j;
        if (distance >= 0 && (options.horizon == 0 || distance < options.horizon))
          seen[i][j] = true;
        const auto key = r[keys - 1 - std::max<int64_t>(distance, 0)];
        row.push_back((by_position.select(1, i) * key).sum(-1));  // [B, h]
      }
      rows.push_back(torch::stack(row, -1));
    }
    scores = (scores + torch::stack(rows, 2)) / std::sqrt(static_cast<double>(d));
    const auto exp = scores.exp() * seen;
    auto p = exp / exp.sum(-1, true);
    if (const auto& mask = context[models::kAttentionDropout]; mask.defined()) {
      p = p * mask.view({heads, batch, q, keys}).transpose(0, 1);
    }
    auto x = torch::einsum("bhij,bjhd->bihd", {p, qkv.select(2, 2)}).reshape({batch, q, -1});
    x = x.matmul(weight("dec_attn.o_net").t()) + parameter("dec_attn.o_net.bias");
    x = dropped(x, context[models::kOutDropout]) + z;
    if (!options.pre_ln) x = norm(x);

    const auto in = options.pre_ln ? norm(x) : x;
    auto y = in.matmul(weight("pos_ff.ff1_net").t()) + parameter("pos_ff.ff1_net.bias");
    y = dropped(y.relu(), context[models::kInnerDropout]);
    y = y.matmul(weight("pos_ff.ff2_net").t()) + parameter("pos_ff.ff2_net.bias");
    y = dropped(y, context[models::kOuterDropout]) + (options.normalised_residual ? in : x);
    return options.pre_ln ? y : norm(y);
  }
};

}  // namespace deq::test
