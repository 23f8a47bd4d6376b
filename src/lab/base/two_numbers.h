#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace deq::lab {

/// The whole numbers of "30x30" or "100:140", or nothing where it is not like that.
inline std::optional<std::pair<int64_t, int64_t>> two_numbers(std::string_view text, char between) {
  std::pair<int64_t, int64_t> numbers;
  const auto* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, numbers.first);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != between) return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, numbers.second);
  if (second.ec != std::errc{} || second.ptr != end) return std::nullopt;
  return numbers;
}

}  // namespace deq::lab
