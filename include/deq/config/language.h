#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deq/config/recipe.h"
#include "deq/data/corpus.h"
#include "deq/models/transformer_options.h"
#include "deq/models/transformer_xl.h"

namespace deq {

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
  std::optional<int64_t> eval_words{};          ///< evaluate on the first so many only
  int64_t min_count = 1;
  std::optional<int64_t> max_words{};  ///< of the vocabulary
};

/// The size of the vocabulary comes from the data, and so do the cutoffs where none are given. All
/// clusters but the first share their projections.
struct DeqTransformerModel : TransformerOptions {
  DeqTransformerModel() { cutoffs.clear(); }
};
struct TransformerXlModel : TransformerXlOptions {
  TransformerXlModel() { cutoffs.clear(); }
};

/// [model].
using LanguageModel = std::variant<DeqTransformerModel, TransformerXlModel>;

/// Language modelling on words. The defaults are the paper's for WikiText-103.
struct LanguageConfig : Recipe {
  LanguageConfig();

  TextData data{};
  LanguageModel model;
};

/// The file with each override "key=value" applied in turn, or a ConfigError.
LanguageConfig load_language(const std::filesystem::path& path,
                             const std::vector<std::string>& overrides = {});

/// The same from text; `source` names it in messages.
LanguageConfig parse_language(std::string_view toml, const std::string& source,
                              const std::vector<std::string>& overrides = {});

/// The effective configuration: every key with its value. Reads back to the same values exactly.
std::string to_toml(const LanguageConfig& config);

}  // namespace deq
