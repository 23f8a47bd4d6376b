#pragma once

#include "deq/models/transformer/options.h"

namespace deq::test {

/// A model of a few hundred parameters, without dropout. Heads need not fill the model's width.
inline models::TransformerOptions small_transformer(bool pre_ln = false) {
  models::TransformerOptions options;
  options.vocabulary = 19;
  options.cutoffs = {6, 11};
  options.div_val = 2;
  options.d_model = 12;
  options.d_embed = 10;
  options.heads = 2;
  options.d_head = 5;
  options.d_inner = 9;
  options.pre_ln = pre_ln;
  options.tie_projections = {false, true, true};
  options.dropout = options.attention_dropout = 0;
  options.init_std = 0.3;
  return options;
}

}  // namespace deq::test
