#pragma once

#include "deq/models/transformer/gpt2_options.h"

namespace deq::test {

/// A GPT-2 of a few hundred numbers, without dropout.
inline models::Gpt2Options small_gpt2(int64_t layers = 2) {
  models::Gpt2Options options;
  options.vocabulary = 19;
  options.layers = layers;
  options.d_model = options.d_embed = 12;
  options.heads = 4;
  options.d_inner = 20;
  options.positions = 9;
  options.dropout = options.attention_dropout = 0;
  options.init_std = 0.3;
  return options;
}

/// The same with a vocabulary in clusters of their own width.
inline models::Gpt2Options small_clustered_gpt2(int64_t layers = 2) {
  auto options = small_gpt2(layers);
  options.cutoffs = {6, 11};
  options.div_val = 2;
  options.d_embed = 10;
  options.tie_projections = {false, true, true};
  return options;
}

}  // namespace deq::test
