#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deq::models {

/// GPT-2 (Radford et al. 2019) as Megatron-LM trains it (Shoeybi et al. 2019). The defaults are its
/// model of 355 million parameters, without the vocabulary's clusters.
struct Gpt2Options {
  int64_t vocabulary = 51'200;          ///< words, ≥ 1
  std::vector<int64_t> cutoffs{};       ///< 0 < … < vocabulary; empty: one cluster
  int64_t div_val = 1;                  ///< ≥ 1; see AdaptiveVocabulary
  int64_t layers = 24;                  ///< ≥ 1
  int64_t d_model = 1024;               ///< even, ≥ 2
  int64_t d_embed = 1024;               ///< width of the first cluster, ≥ 1
  int64_t heads = 16;                   ///< ≥ 1, divides d_model
  int64_t d_inner = 4096;               ///< of the feed-forward parts, ≥ 1
  int64_t positions = 1024;             ///< that are learned: words read at once, at most; ≥ 1
  bool tie_weights = true;              ///< one table to embed and to predict words
  std::vector<bool> tie_projections{};  ///< which clusters; empty: none
  double dropout = 0.1;                 ///< of embedded words and of what a part adds, in [0, 1)
  double attention_dropout = 0.1;       ///< of attention probabilities, in [0, 1)
  double init_std = 0.02;  ///< of the weights at the start, ≥ 0; of those of what a part adds,
                           ///< this / √(2·layers)

  int64_t head_width() const { return d_model / heads; }
};

/// Throws Error naming the field, its value and the constraint.
void validate(const Gpt2Options& options);

/// The same where every layer is shared by so many processes: heads and d_inner are then multiples
/// of it.
void validate(const Gpt2Options& options, int64_t parts);

/// The published sizes, by name: 355m, 2.5b and 8.3b.
Gpt2Options gpt2_preset(std::string_view name);
std::vector<std::string> gpt2_preset_names();

/// The parameters that one of `parts` processes holds, which are those of the model where there is
/// only one. Nothing is allocated.
int64_t parameter_count(const Gpt2Options& options, int64_t parts = 1);

}  // namespace deq::models
