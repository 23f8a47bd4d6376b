#include "deq/lab/data/text/vocabulary.h"

#include "core/require.h"
#include "lab/data/text/word_reader.h"
#include "lab/data/text/word_table.h"

namespace deq::lab {
namespace {

bool is_one_word(std::string_view text) {
  int64_t words = 0, line_ends = 0;
  std::string_view last;
  read_words(
      text, [&](std::string_view word) { ++words, last = word; }, [&] { ++line_ends; });
  return words == 1 && line_ends == 0 && last == text;
}

}  // namespace

struct Vocabulary::Words {
  explicit Words(std::span<const WordCount> words) : table(static_cast<int64_t>(words.size())) {
    counts.reserve(words.size());
    for (const auto& [word, count] : words) {
      require(is_one_word(word), "vocabulary: \"{}\" is not a word", word);
      require(static_cast<size_t>(table.add(word)) == counts.size(),
              "vocabulary: \"{}\" is there twice", word);
      counts.push_back(count);
    }
  }

  WordTable table;
  std::vector<int64_t> counts;
  int64_t unknown = 0;
};

Vocabulary::Vocabulary(std::span<const WordCount> words) {
  auto held = std::make_shared<Words>(words);
  require(!words.empty() && words[0].word == kEndOfLineWord,
          "vocabulary: its first word must be {}", kEndOfLineWord);
  const auto unknown = held->table.find(kUnknownWord);
  require(unknown.has_value(), "vocabulary: {} is missing", kUnknownWord);
  held->unknown = *unknown;
  words_ = std::move(held);
}

int64_t Vocabulary::size() const {
  return static_cast<int64_t>(words_->counts.size());
}

std::string_view Vocabulary::word(int64_t number) const {
  require(number >= 0 && number < size(), "word {} is not in the vocabulary, must be ≥ 0 and < {}",
          number, size());
  return words_->table.words()[static_cast<size_t>(number)];
}

int64_t Vocabulary::count(int64_t number) const {
  require(number >= 0 && number < size(), "word {} is not in the vocabulary, must be ≥ 0 and < {}",
          number, size());
  return words_->counts[static_cast<size_t>(number)];
}

int64_t Vocabulary::number(std::string_view word) const {
  const auto found = words_->table.find(word);
  return found ? *found : words_->unknown;
}

bool Vocabulary::contains(std::string_view word) const {
  return words_->table.find(word).has_value();
}

int64_t Vocabulary::unknown() const {
  return words_->unknown;
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int64_t> numbers;
  try {
    read_words(
        text, [&](std::string_view word) { numbers.push_back(number(word)); },
        [&] { numbers.push_back(end_of_line()); });
  } catch (const Utf8Error& error) {
    throw Error(
        fmt::format("the text is not UTF-8 at its byte {}", error.position() - text.data() + 1));
  }
  return numbers;
}

std::string Vocabulary::decode(std::span<const int64_t> numbers) const {
  std::string text;
  for (const auto number : numbers) {
    if (number == end_of_line()) {
      text += '\n';
      continue;
    }
    if (!text.empty() && text.back() != '\n') text += ' ';
    text += word(number);
  }
  return text;
}

}  // namespace deq::lab
