#include "lab/data/text/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "deq/core/error.h"
#include "deq/lab/data/text/corpus.h"
#include "deq/lab/data/text/vocabulary_cutoffs.h"
#include "lab/data/text/corpus_text.h"

namespace deq::lab {
namespace {

constexpr CorpusSplit kCorpusSplits[] = {CorpusSplit::Train, CorpusSplit::Valid, CorpusSplit::Test};
// Beyond this share of unknown words two texts are hardly of one language.
constexpr double kMostlyUnknown = 0.5;

/// Reads the splits in their order, the training text first.
class TextExamination {
 public:
  explicit TextExamination(const std::filesystem::path& folder) { check_.folder = folder; }

  void read(CorpusSplit split) {
    const auto path = find_split(check_.folder, split);
    const std::string name(name_of(split));
    if (!path) {
      if (split != CorpusSplit::Test) blame(name, missing(split));
      return;
    }
    try {
      CorpusText text(*path);
      examine(split, text);
    } catch (const Error& error) {
      blame(path->filename().string(), error.what());
    }
  }

  TextCheck take() { return std::move(check_); }

 private:
  static std::string missing(CorpusSplit split) {
    return fmt::format("there is {}: nothing to {} on", names_looked_for(split),
                       split == CorpusSplit::Train ? "train" : "validate");
  }

  void blame(const std::string& where, const std::string& what) {
    check_.problems.push_back({where, what});
  }

  void examine(CorpusSplit split, CorpusText& text) {
    const auto index = text.read(/*threads=*/0);
    const auto words = index.words();
    TextSplit found{.name = std::string(name_of(split)),
                    .file = text.path().filename().string(),
                    .bytes = text.bytes()};
    if (split == CorpusSplit::Train) learn(words);
    for (const auto& [word, count] : words) {
      if (word == kEndOfLineWord) {
        found.lines = count;
        continue;
      }
      found.words += count;
      ++found.different;
      if (known_ && !known_->contains(word)) found.unknown += count;
    }
    judge(found, text);
    check_.splits.push_back(std::move(found));
  }

  void learn(const std::vector<WordCount>& words) {
    known_.emplace(build_vocabulary(words));
    check_.vocabulary = known_->size();
    check_.rare = std::ranges::count(words, 1, &WordCount::count);
    check_.cutoffs = choose_cutoffs(check_.vocabulary);
  }

  void judge(const TextSplit& split, CorpusText& text) {
    if (split.words == 0) blame(split.file, "it has no word");
    if (static_cast<double>(split.unknown) > kMostlyUnknown * static_cast<double>(split.words)) {
      blame(split.file, fmt::format("{} of its {} words are not in the training text",
                                    split.unknown, split.words));
    }
    const auto [same, is_new] =
        by_content_.try_emplace({text.bytes(), text.checksum()}, split.file);
    if (!is_new) blame(split.file, fmt::format("it is the same text as {}", same->second));
  }

  TextCheck check_;
  std::optional<Vocabulary> known_;  // of the training text
  std::map<std::pair<int64_t, uint32_t>, std::string> by_content_;
};

}  // namespace

bool holds_texts(const std::filesystem::path& folder) {
  return std::ranges::any_of(
      kCorpusSplits, [&](CorpusSplit split) { return find_split(folder, split).has_value(); });
}

TextCheck check_texts(const std::filesystem::path& folder) {
  TextExamination examination(folder);
  for (const auto split : kCorpusSplits) examination.read(split);
  return examination.take();
}

}  // namespace deq::lab
