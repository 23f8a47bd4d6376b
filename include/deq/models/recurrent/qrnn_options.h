#pragma once

#include <cstdint>
#include <vector>

namespace deq::models {

/// A quasi-recurrent language model (Bradbury et al. 2017) with the regularisation of AWD-LSTM
/// (Merity et al. 2018a). The defaults are the model for WikiText-103 of Merity et al. 2018b as
/// its authors' code has it: 153.9M parameters, or 150.9M with window = 1. Comparisons speak of
/// 159M or of 151M; what was counted we have not found said.
struct QrnnOptions {
  int64_t vocabulary = 267'735;                      ///< words, ≥ 1
  std::vector<int64_t> cutoffs{2800, 20000, 76000};  ///< 0 < … < vocabulary; empty: one cluster
  int64_t div_val = 1;                               ///< ≥ 1; see AdaptiveVocabulary
  int64_t layers = 4;                                ///< ≥ 1
  int64_t d_embed = 400;                             ///< of words and of the last layer, ≥ 1
  int64_t d_hidden = 2500;                           ///< of all other layers, ≥ 1
  int64_t window = 2;                                ///< inputs that the first layer sees, ≥ 1
  bool tie_weights = true;                           ///< one table to embed and to predict words
  std::vector<bool> tie_projections{};               ///< which clusters; empty: none
  double embedding_dropout = 0;                      ///< of whole words, in [0, 1)
  double input_dropout = 0.1;                        ///< of embedded features, in [0, 1)
  double hidden_dropout = 0.1;                       ///< of features between layers, in [0, 1)
  double output_dropout = 0.1;                       ///< of the last layer's features, in [0, 1)
  double weight_dropout = 0;                         ///< of the layers' weights, in [0, 1)
  double activation_penalty = 0;                     ///< α, ≥ 0
  double slowness_penalty = 0;                       ///< β, ≥ 0
  double init_std = 0.058;                           ///< of words at the start, ≥ 0
};

/// Throws Error naming the field, its value and the constraint.
void validate(const QrnnOptions& options);

}  // namespace deq::models
