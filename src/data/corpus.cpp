#include "deq/data/corpus.h"

#include "data/corpus_cache.h"
#include "data/corpus_text.h"
#include "data/vocabulary_file.h"
#include "deq/core/error.h"
#include "deq/io/checksum.h"

namespace deq {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTokens = "tokens";

/// One folder for every choice of options, so that none displaces another.
fs::path cache_folder(const fs::path& corpus, const CorpusOptions& options) {
  const auto& [max_words, min_count] = options.vocabulary;
  std::string name = "words";
  if (min_count > 1) name += c10::str("-min", min_count);
  if (max_words > 0) name += c10::str("-max", max_words);
  return (options.cache_folder.empty() ? corpus / ".deq-cache" : options.cache_folder) / name;
}

std::string basis_of(const VocabularyOptions& options) {
  return c10::str("max_words ", options.max_words, ", min_count ", options.min_count);
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
    if (const auto found = cache_.find("vocabulary", training, basis)) {
      vocabulary_checksum_ = content_checksum({.tensors = found->tensors, .metadata = {}});
      return unpack_vocabulary(*found);
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
    if (const auto found = cache_.find(name, text, basis)) return found->tensors.at(kTokens);
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
  require(options.expected_words >= 0, "corpus: expected_words = ", options.expected_words,
          ", must be ≥ 0");
  require(options.threads >= 0, "corpus: threads = ", options.threads, ", must be ≥ 0");
}

Corpus::Corpus(const fs::path& folder, const CorpusOptions& options) : folder_(folder) {
  validate(options);
  const auto training_path = find_split(folder, CorpusSplit::Train);
  require<UsageError>(training_path.has_value(), "the corpus ", folder.string(),
                      " has no train split: there is ", names_looked_for(CorpusSplit::Train));
  CorpusText training(*training_path);
  Opening opening(folder, options);
  vocabulary_ = opening.vocabulary(training);
  require<UsageError>(options.expected_words == 0 || vocabulary().size() == options.expected_words,
                      "the vocabulary of ", folder.string(), " has ", vocabulary().size(),
                      " words, must have ", options.expected_words);
  splits_[index(CorpusSplit::Train)] = opening.tokens(CorpusSplit::Train, training, vocabulary());
  for (const auto split : {CorpusSplit::Valid, CorpusSplit::Test}) {
    const auto path = find_split(folder, split);
    if (!path) continue;
    CorpusText text(*path);
    splits_[index(split)] = opening.tokens(split, text, vocabulary());
  }
}

torch::Tensor Corpus::tokens(CorpusSplit split) const {
  require<UsageError>(has(split), "the corpus ", folder_.string(), " has no ", name_of(split),
                      " split: there is ", names_looked_for(split));
  return splits_[index(split)];
}

}  // namespace deq
