#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace deq {

/// Numbers words in the order in which they come. Holds views: the words' bytes are the caller's.
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
  void grow();

  std::vector<std::string_view> words_;
  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
};

}  // namespace deq
