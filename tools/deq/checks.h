#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace deq::lab::cli {

/// Whether a text is a whole number, and not below another.
inline bool is_whole_number(const std::string& text, long long least) {
  long long value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && stop == end && value >= least;
}

/// Refuse, in a sentence, what is no such number; CLI11's own check prints an interval.
inline std::string positive_whole_number(const std::string& text) {
  return is_whole_number(text, 1) ? "" : "must be a whole number above zero, not " + text;
}
inline std::string whole_number(const std::string& text) {
  return is_whole_number(text, 0) ? "" : "must be a whole number, zero or above, not " + text;
}

/// Above zero, and at most this.
inline CLI::Validator size_up_to(int64_t most) {
  return CLI::Validator(
      [most](const std::string& text) -> std::string {
        if (auto fault = positive_whole_number(text); !fault.empty()) return fault;
        if (!is_whole_number(text, most + 1)) return "";
        return "must be at most " + std::to_string(most) + ", not " + text;
      },
      "");
}

/// Of several such numbers with commas between them. Says of the first part that is none.
inline std::string positive_whole_numbers(const std::string& list) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const auto part = list.substr(begin, end - begin);
    if (part.empty()) return "has nothing between two commas or at an end: " + list;
    if (auto fault = positive_whole_number(part); !fault.empty()) return fault;
    begin = end + 1;
  }
  return "";
}

/// The numbers of lists that positive_whole_numbers() takes.
inline std::vector<int64_t> numbers_of(const std::vector<std::string>& lists) {
  std::vector<int64_t> numbers;
  for (const auto& list : lists) {
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) numbers.push_back(std::stoll(part));
  }
  return numbers;
}

}  // namespace deq::lab::cli
