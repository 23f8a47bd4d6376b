#include <algorithm>

#include "core/require.h"
#include "deq/lab/data/text/vocabulary.h"

namespace deq::lab {
namespace {

struct Candidate {
  WordCount entry;
  size_t appearance;  // its position among the words of the text
};

// The order of Python's Counter.most_common().
bool before(const Candidate& a, const Candidate& b) {
  return a.entry.count != b.entry.count ? a.entry.count > b.entry.count
                                        : a.appearance < b.appearance;
}

}  // namespace

void validate(const VocabularyOptions& options) {
  require(options.max_words == 0 || options.max_words >= 2,
          "vocabulary: max_words = {}, must be ≥ 2, or 0 for no limit", options.max_words);
  require(options.min_count >= 1, "vocabulary: min_count = {}, must be ≥ 1", options.min_count);
}

Vocabulary build_vocabulary(std::span<const WordCount> counted, const VocabularyOptions& options) {
  validate(options);
  WordCount end_of_line{kEndOfLineWord, 0};
  Candidate unknown{{kUnknownWord, 0}, counted.size()};
  std::vector<Candidate> words;
  words.reserve(counted.size() + 1);
  for (size_t i = 0; i < counted.size(); ++i) {
    if (counted[i].word == kEndOfLineWord) {
      end_of_line.count += counted[i].count;
    } else if (counted[i].word == kUnknownWord) {
      unknown = {{kUnknownWord, counted[i].count}, i};
    } else {
      words.push_back({counted[i], i});
    }
  }

  std::sort(words.begin(), words.end(), before);
  auto end = std::find_if(words.begin(), words.end(), [&](const Candidate& word) {
    return word.entry.count < options.min_count;
  });
  if (options.max_words > 0) {
    end = words.begin() + std::min<int64_t>(end - words.begin(), options.max_words - 2);
  }
  for (auto left_out = end; left_out != words.end(); ++left_out) {
    unknown.entry.count += left_out->entry.count;
    unknown.appearance = std::min(unknown.appearance, left_out->appearance);
  }
  words.erase(end, words.end());
  words.insert(std::upper_bound(words.begin(), words.end(), unknown, before), unknown);

  std::vector<WordCount> ordered{end_of_line};
  ordered.reserve(words.size() + 1);
  for (const auto& word : words) ordered.push_back(word.entry);
  return Vocabulary(ordered);
}

}  // namespace deq::lab
