#pragma once

#include <cstdint>
#include <vector>

namespace deq::models {

/// A language model of recurrent depth (Geiping et al. 2025): a few layers before a loop, some that
/// are looped, a few after it. The numbers of layers are the authors'; the sizes are those of
/// Transformer-XL's base model for WikiText-103.
struct LoopedTransformerOptions {
  int64_t vocabulary = 267'735;                        ///< words, ≥ 1
  std::vector<int64_t> cutoffs{20000, 40000, 200000};  ///< 0 < … < vocabulary; empty: one cluster
  int64_t div_val = 1;                                 ///< ≥ 1; see AdaptiveVocabulary
  int64_t prelude = 2;                                 ///< layers before the loop, ≥ 0
  int64_t core = 4;                                    ///< layers of the loop, ≥ 1
  int64_t coda = 2;                                    ///< layers after the loop, ≥ 0
  int64_t d_model = 410;                               ///< even, ≥ 2
  int64_t d_embed = 410;                               ///< width of the first cluster, ≥ 1
  int64_t heads = 10;                                  ///< ≥ 1
  int64_t d_head = 41;                                 ///< ≥ 1
  int64_t d_inner = 2100;                              ///< of the feed-forward parts, ≥ 1
  int64_t horizon = 0;      ///< positions that one sees, itself among them; 0: all
  bool pre_ln = false;      ///< in prelude and coda, layer norms before the two parts, not after
  bool tie_weights = true;  ///< one table to embed and to predict words
  std::vector<bool> tie_projections{false, true, true, true};  ///< which clusters; empty: none
  double dropout = 0.1;                                        ///< in [0, 1)
  double attention_dropout = 0.0;  ///< of attention probabilities, in [0, 1)
  double init_std = 0.02;          ///< of the weights at the start, ≥ 0
  /// Of the normal numbers that a loop starts from, ≥ 0. States of the loop have a spread of 1.
  double start_std = 1;
};

/// Throws Error naming the field, its value and the constraint.
void validate(const LoopedTransformerOptions& options);

}  // namespace deq::models
