#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace deq {

/// Numbers words in the order in which they come. Keeps their bytes side by side, so that looking
/// words up touches little memory; they stay where they are when the table is moved.
class WordTable {
 public:
  explicit WordTable(int64_t expected_words = 0);

  /// The number of the word, a new one if it was not there.
  int32_t add(std::string_view word);
  std::optional<int32_t> find(std::string_view word) const;

  /// By their numbers.
  const std::vector<std::string_view>& words() const { return words_; }

 private:
  struct Slot {
    uint32_t hash = 0;  // its upper half, to compare before the bytes are
    int32_t number = -1;
  };

  /// Where the word is or would be.
  size_t place(std::string_view word, uint64_t hash) const;
  std::string_view keep(std::string_view word);
  void grow();

  std::vector<std::string_view> words_;
  std::vector<std::unique_ptr<char[]>> blocks_;  // the words' bytes
  char* free_ = nullptr;                         // what is left of the last block
  size_t room_ = 0;
  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
};

}  // namespace deq
