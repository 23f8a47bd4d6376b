#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

namespace deq::cli {

/// Refuses what is no whole number above zero in a sentence; CLI11's own check prints an interval.
inline std::string positive_whole_number(const std::string& text) {
  long long value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc{} && stop == end && value > 0) return "";
  return "must be a whole number above zero, not " + text;
}

}  // namespace deq::cli
