#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "deq/lab/data/text/vocabulary.h"

namespace deq::lab {

enum class CorpusSplit { Train, Valid, Test };

/// "train", "valid" or "test".
std::string_view name_of(CorpusSplit split);

struct CorpusOptions {
  VocabularyOptions vocabulary{};
  int64_t expected_words = 0;            ///< ≥ 0: the size that the vocabulary must have; 0: any
  bool cache = true;                     ///< keep the numbers of the words on the disk
  std::filesystem::path cache_folder{};  ///< empty: .deq-cache in the corpus
  int64_t threads = 0;                   ///< ≥ 0 that read the text; 0: as many as are useful
  std::function<void(const std::string&)> warn{};  ///< something to know, in a sentence
};

void validate(const CorpusOptions& options);

/// A text in words, its splits the files train.txt, valid.txt and test.txt or wiki.train.tokens,
/// wiki.valid.tokens and wiki.test.tokens of a folder. Words are separated by white space, <eos> is
/// the last of every line, empty lines included, and the vocabulary is that of the training split.
///
/// Reading a text takes seconds for 100 million words, so the result is kept: a file for the
/// vocabulary and one for each split, written as soon as it is there. The next opening maps them
/// after checking that they are whole and of this text, and makes anew, with a warning, those that
/// are not. Processes that open a corpus at once share one reading and the memory.
class Corpus {
 public:
  /// UsageError when there is no training split; valid and test may be missing.
  explicit Corpus(const std::filesystem::path& folder, const CorpusOptions& options = {});

  const Vocabulary& vocabulary() const { return *vocabulary_; }

  bool has(CorpusSplit split) const { return splits_[index(split)].defined(); }
  /// int32 [tokens], to be read only. UsageError when the split is missing.
  torch::Tensor tokens(CorpusSplit split) const;

 private:
  static size_t index(CorpusSplit split) { return static_cast<size_t>(split); }

  std::filesystem::path folder_;
  std::optional<Vocabulary> vocabulary_;
  std::array<torch::Tensor, 3> splits_;
};

}  // namespace deq::lab
