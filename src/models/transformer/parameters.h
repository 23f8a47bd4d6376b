#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>

#include "deq/models/transformer/gpt2_options.h"
#include "deq/models/transformer/options.h"
#include "deq/models/transformer/transformer_xl.h"

// Parameters of the language models under their published names.

namespace deq::models {

/// "emb_projs.2.weight" or "emb_projs.2", as the vocabulary names projections.
std::string projection_name(const std::string& list, int64_t cluster,
                            const AdaptiveVocabulary& vocabulary);

torch::Tensor normal_numbers(c10::IntArrayRef shape, double spread,
                             const std::optional<at::Generator>& generator);

/// What options say of their words, with projections that are plain parameters.
template <class Options>
AdaptiveVocabulary plain_vocabulary(const Options& options) {
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std,
          .projections_are_layers = false};
}

AdaptiveVocabulary adaptive_vocabulary(const TransformerXlOptions& options);
AdaptiveVocabulary adaptive_vocabulary(const Gpt2Options& options);

/// TransformerLinearOptions::spread of the layer's weights.
double layer_spread(const TransformerOptions& options);

}  // namespace deq::models
