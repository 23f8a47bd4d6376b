#include "data/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "deq/core/error.h"

namespace deq {
namespace {

constexpr size_t kFewestSlots = 1024;
constexpr size_t kBlockBytes = size_t{1} << 16;

template <class Number>
uint64_t load(const char* bytes) {
  Number number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

/// The two halves of the product of two 64-bit numbers, folded into one: every bit of the result
/// depends on every bit of both.
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_of(std::string_view word) {
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15, kSecond = 0xd6e8feb86659fd93;
  const char* bytes = word.data();
  const size_t size = word.size();
  if (size < 4) {
    const uint64_t number = size == 0
                                ? 0
                                : load<uint8_t>(bytes) | load<uint8_t>(bytes + size / 2) << 8 |
                                      load<uint8_t>(bytes + size - 1) << 16;
    return mix(number ^ kFirst, kSecond ^ size);
  }
  if (size <= 8) {
    return mix((load<uint32_t>(bytes) | load<uint32_t>(bytes + size - 4) << 32) ^ kFirst,
               kSecond ^ size);
  }
  uint64_t hash = kSecond ^ size;
  for (size_t i = 0; i + 8 < size; i += 8) hash = mix(load<uint64_t>(bytes + i) ^ kFirst, hash);
  return mix(load<uint64_t>(bytes + size - 8) ^ kFirst, hash);
}

}  // namespace

WordTable::WordTable(int64_t expected_words)
    : slots_(std::max(kFewestSlots, std::bit_ceil(2 * static_cast<size_t>(expected_words)))) {
  words_.reserve(static_cast<size_t>(expected_words));
}

size_t WordTable::place(std::string_view word, uint64_t hash) const {
  const auto upper = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & (slots_.size() - 1);
  for (;; at = (at + 1) & (slots_.size() - 1)) {
    const auto& slot = slots_[at];
    if (slot.number < 0) return at;
    if (slot.hash == upper && words_[static_cast<size_t>(slot.number)] == word) return at;
  }
}

int32_t WordTable::add(std::string_view word) {
  const auto hash = hash_of(word);
  auto& slot = slots_[place(word, hash)];
  if (slot.number >= 0) return slot.number;
  require(words_.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()),
          "a text has more than 2³¹ different words");
  const auto number = static_cast<int32_t>(words_.size());
  slot = {.hash = static_cast<uint32_t>(hash >> 32), .number = number};
  words_.push_back(keep(word));
  if (2 * words_.size() > slots_.size()) grow();
  return number;
}

std::optional<int32_t> WordTable::find(std::string_view word) const {
  const auto& slot = slots_[place(word, hash_of(word))];
  return slot.number >= 0 ? std::optional(slot.number) : std::nullopt;
}

std::string_view WordTable::keep(std::string_view word) {
  if (word.size() > room_) {
    room_ = std::max(kBlockBytes, word.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(room_));
    free_ = blocks_.back().get();
  }
  std::copy(word.begin(), word.end(), free_);
  const std::string_view kept(free_, word.size());
  free_ += word.size();
  room_ -= word.size();
  return kept;
}

void WordTable::grow() {
  slots_ = std::vector<Slot>(4 * slots_.size());
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto hash = hash_of(words_[i]);
    // No word is there twice, so that none need be compared.
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].number >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {.hash = static_cast<uint32_t>(hash >> 32), .number = static_cast<int32_t>(i)};
  }
}

}  // namespace deq
