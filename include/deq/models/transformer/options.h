#pragma once

#include <cstdint>
#include <vector>

#include "deq/models/transformer/adaptive_softmax.h"

namespace deq::models {

/// A language model of one Transformer layer at its equilibrium (Bai, Kolter and Koltun 2019). The
/// defaults are the authors' model for WikiText-103 with Jacobian regularisation (2021).
struct TransformerOptions {
  int64_t vocabulary = 267'735;                        ///< words, ≥ 1
  std::vector<int64_t> cutoffs{20000, 40000, 200000};  ///< 0 < … < vocabulary; empty: one cluster
  int64_t div_val = 4;                                 ///< ≥ 1; see AdaptiveVocabulary
  int64_t d_model = 700;                               ///< width of the state, even, ≥ 2
  int64_t d_embed = 700;                               ///< width of the first cluster, ≥ 1
  int64_t heads = 10;                                  ///< ≥ 1
  int64_t d_head = 70;                                 ///< ≥ 1
  int64_t d_inner = 48000;                             ///< of the feed-forward part, ≥ 1
  int64_t horizon = 1000;   ///< positions that one sees, itself among them, ≥ 1
  bool pre_ln = false;      ///< layer norms before the two parts, not after
  bool weight_norm = true;  ///< of all weights of the layer
  bool tie_weights = true;  ///< one table to embed and to predict words
  std::vector<bool> tie_projections{false, true, true, true};  ///< which clusters; empty: none
  double dropout = 0.06;                                       ///< of features, in [0, 1)
  double attention_dropout = 0.01;  ///< of attention probabilities, in [0, 1)
  double init_std = 0.01;           ///< of the weights at the start, ≥ 0
  bool predicted_start = false;     ///< solves begin at what two small layers make of the injection

  // Where the authors' code does something else than one would expect. A published checkpoint needs
  // the first as it is here; the others matter only in training.

  /// With pre_ln, the feed-forward part's residual is its normalised input, not the input.
  bool normalised_residual = true;
  /// Normalised weights start as torch's own layers do, not with init_std.
  bool default_init_when_normalised = true;
  /// Dropout on the way out drops all features of some positions, not some features of all.
  bool output_drops_positions = false;
};

/// Throws Error naming the field, its value and the constraint.
void validate(const TransformerOptions& options);

AdaptiveVocabulary adaptive_vocabulary(const TransformerOptions& options);
AdaptiveTies adaptive_ties(const TransformerOptions& options);

}  // namespace deq::models
