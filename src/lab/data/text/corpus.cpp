#include "deq/lab/data/text/corpus.h"

#include <algorithm>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/data/text/corpus_cache.h"
#include "lab/data/text/corpus_text.h"
#include "lab/data/text/vocabulary_file.h"
#include "lab/io/checksum.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTokens = "tokens";

/// One folder for every choice of options, so that none displaces another.
fs::path cache_folder(const fs::path& corpus, const CorpusOptions& options) {
  const auto& [max_words, min_count] = options.vocabulary;
  std::string name = "words";
  if (min_count > 1) name += fmt::format("-min{}", min_count);
  if (max_words > 0) name += fmt::format("-max{}", max_words);
  return (options.cache_folder.empty() ? corpus / ".deq-cache" : options.cache_folder) / name;
}

std::string basis_of(const VocabularyOptions& options) {
  return fmt::format("max_words {}, min_count {}", options.max_words, options.min_count);
}

void require_tokens(const TensorFile& file, const Vocabulary& vocabulary) {
  const auto found = file.tensors.find(kTokens);
  require(found != file.tensors.end() && found->second.dim() == 1 &&
              found->second.scalar_type() == torch::kInt32,
          "it has no column \"{}\"", kTokens);
  const auto* first = found->second.const_data_ptr<int32_t>();
  const auto words = static_cast<int32_t>(vocabulary.size());
  require(std::all_of(first, first + found->second.numel(),
                      [words](int32_t token) { return token >= 0 && token < words; }),
          "a word has a number that the vocabulary has not");
}

/// What Corpus::Corpus does, step by step.
class Opening {
 public:
  Opening(const fs::path& folder, const CorpusOptions& options)
      : options_(options),
        cache_(options.cache ? std::optional(cache_folder(folder, options)) : std::nullopt,
               options.warn) {}

  /// The training text is read for it when need be; tokens() then makes use of that.
  Vocabulary vocabulary(CorpusText& training) {
    const auto basis = basis_of(options_.vocabulary);
    std::optional<Vocabulary> kept;
    const auto unpack = [&kept](const TensorFile& file) { kept = unpack_vocabulary(file); };
    if (const auto found = cache_.find("vocabulary", training, basis, unpack)) {
      vocabulary_checksum_ = content_checksum({.tensors = found->tensors, .metadata = {}});
      return *kept;
    }
    training_.emplace(training.read(options_.threads));
    auto vocabulary = build_vocabulary(training_->words(), options_.vocabulary);
    auto file = pack_vocabulary(vocabulary);
    vocabulary_checksum_ = content_checksum(file);
    cache_.keep("vocabulary", training, basis, std::move(file));
    return vocabulary;
  }

  torch::Tensor tokens(CorpusSplit split, CorpusText& text, const Vocabulary& vocabulary) {
    const std::string name(name_of(split)), basis = "vocabulary " + vocabulary_checksum_;
    const auto check = [&vocabulary](const TensorFile& file) { require_tokens(file, vocabulary); };
    if (const auto found = cache_.find(name, text, basis, check)) return found->tensors.at(kTokens);
    const bool read = split == CorpusSplit::Train && training_;
    auto index = read ? std::move(*training_) : text.read(options_.threads);
    training_.reset();
    TensorFile file{.tensors = {{kTokens, std::move(index).encode(vocabulary)}}, .metadata = {}};
    return cache_.keep(name, text, basis, std::move(file)).tensors.at(kTokens);
  }

 private:
  const CorpusOptions& options_;
  CorpusCache cache_;
  std::optional<TextIndex> training_;
  std::string vocabulary_checksum_;
};

}  // namespace

std::string_view name_of(CorpusSplit split) {
  constexpr std::array<std::string_view, 3> kNames{"train", "valid", "test"};
  return kNames.at(static_cast<size_t>(split));
}

void validate(const CorpusOptions& options) {
  validate(options.vocabulary);
  require(options.expected_words >= 0, "corpus: expected_words = {}, must be ≥ 0",
          options.expected_words);
  require(options.threads >= 0, "corpus: threads = {}, must be ≥ 0", options.threads);
}

Corpus::Corpus(const fs::path& folder, const CorpusOptions& options) : folder_(folder) {
  validate(options);
  const auto training_path = find_split(folder, CorpusSplit::Train);
  require<UsageError>(training_path.has_value(), "the corpus {} has no train split: there is {}",
                      folder.string(), names_looked_for(CorpusSplit::Train));
  CorpusText training(*training_path);
  Opening opening(folder, options);
  vocabulary_ = opening.vocabulary(training);
  require<UsageError>(options.expected_words == 0 || vocabulary().size() == options.expected_words,
                      "the vocabulary of {} has {} words, must have {}", folder.string(),
                      vocabulary().size(), options.expected_words);
  splits_[index(CorpusSplit::Train)] = opening.tokens(CorpusSplit::Train, training, vocabulary());
  for (const auto split : {CorpusSplit::Valid, CorpusSplit::Test}) {
    const auto path = find_split(folder, split);
    if (!path) continue;
    CorpusText text(*path);
    splits_[index(split)] = opening.tokens(split, text, vocabulary());
  }
}

torch::Tensor Corpus::tokens(CorpusSplit split) const {
  require<UsageError>(has(split), "the corpus {} has no {} split: there is {}", folder_.string(),
                      name_of(split), names_looked_for(split));
  return splits_[index(split)];
}

}  // namespace deq::lab
