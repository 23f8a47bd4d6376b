#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "deq/lab/data/text/corpus.h"
#include "deq/lab/settings/recipe.h"
#include "deq/models/recurrent/qrnn_options.h"
#include "deq/models/recurrent/relational_memory_options.h"
#include "deq/models/transformer/gpt2_options.h"
#include "deq/models/transformer/looped_options.h"
#include "deq/models/transformer/options.h"
#include "deq/models/transformer/transformer_xl.h"

namespace deq::lab {

/// [data]. A training step reads train.batch_size streams of text, `segment` words of each; what
/// the model remembers goes on from one step to the next.
struct TextData {
  std::string path;
  int64_t segment = 150;
  int64_t memory = 150;
  int64_t eval_segment = 150;
  int64_t eval_memory = 150;
  int64_t eval_streams = 16;
  CorpusSplit eval_split = CorpusSplit::Valid;  ///< not Train
  std::optional<int64_t> eval_words{};          ///< evaluate only on this many words, the first
  int64_t min_count = 1;
  std::optional<int64_t> max_words{};  ///< of the vocabulary
};

/// The size of the vocabulary comes from the data, and so do the cutoffs where none are given. All
/// clusters except the first share their projections.
struct DeqTransformerModel : models::TransformerOptions {
  DeqTransformerModel() { cutoffs.clear(); }
};
struct TransformerXlModel : models::TransformerXlOptions {
  TransformerXlModel() { cutoffs.clear(); }
};
struct LoopedModel : models::LoopedTransformerOptions {
  LoopedModel() { cutoffs.clear(); }
  std::vector<double> exits{};  ///< tolerances of models::LoopExits to evaluate with, > 0
};
struct QrnnModel : models::QrnnOptions {
  QrnnModel() { cutoffs.clear(); }
};
struct RelationalMemoryModel : models::RelationalMemoryOptions {
  RelationalMemoryModel() { cutoffs.clear(); }
};
struct Gpt2Model : models::Gpt2Options {};

/// [model].
using LanguageModel = std::variant<DeqTransformerModel, TransformerXlModel, LoopedModel, QrnnModel,
                                   RelationalMemoryModel, Gpt2Model>;

/// Language modelling on words. The defaults are the paper's for WikiText-103.
struct LanguageConfig : Recipe {
  LanguageConfig();

  TextData data{};
  LanguageModel model;
};

}  // namespace deq::lab
