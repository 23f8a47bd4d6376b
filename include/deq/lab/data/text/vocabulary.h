#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deq::lab {

/// The word that ends a line, number 0 of every vocabulary, and the one that stands for all others.
inline constexpr std::string_view kEndOfLineWord = "<eos>";
inline constexpr std::string_view kUnknownWord = "<unk>";

struct WordCount {
  std::string_view word;
  int64_t count = 0;
};

struct VocabularyOptions {
  int64_t max_words = 0;  ///< ≥ 2 with <eos> and <unk>: the most frequent are kept; 0: no limit
  int64_t min_count = 1;  ///< ≥ 1; rarer words are left out

  bool operator==(const VocabularyOptions&) const = default;
};

void validate(const VocabularyOptions& options);

/// The words that a model knows and their numbers. Cheap to copy.
class Vocabulary {
 public:
  /// In the order of their numbers: <eos> first, <unk> among them, none twice.
  explicit Vocabulary(std::span<const WordCount> words);

  int64_t size() const;
  std::string_view word(int64_t number) const;
  /// How often the training text has it; of <unk> the words that were left out as well.
  int64_t count(int64_t number) const;

  /// That of <unk> for a word that is not there.
  int64_t number(std::string_view word) const;
  bool contains(std::string_view word) const;
  int64_t end_of_line() const { return 0; }
  int64_t unknown() const;

  /// The words of a text, with <eos> where a line ends; a last line without an end has none.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Words with a blank between them, and a line's end for <eos>.
  std::string decode(std::span<const int64_t> numbers) const;

 private:
  struct Words;
  std::shared_ptr<const Words> words_;
};

/// <eos>, then the words by falling count; of those equally frequent, the one that the text has
/// first comes first. Words that the options leave out count as <unk>, just as if the text had it
/// instead; where nothing is unknown, <unk> comes last. `counted` lists all words of the
/// text, each once, in the order of their first appearance.
Vocabulary build_vocabulary(std::span<const WordCount> counted,
                            const VocabularyOptions& options = {});

/// Eight hexadecimal digits over words, counts and order.
std::string checksum(const Vocabulary& vocabulary);

/// A safetensors file: `counts` and `ends` of the words in `text`.
void write_vocabulary(const std::filesystem::path& path, const Vocabulary& vocabulary);
Vocabulary read_vocabulary(const std::filesystem::path& path);

}  // namespace deq::lab
