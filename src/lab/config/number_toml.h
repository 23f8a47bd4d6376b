#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "lab/io/number_text.h"

namespace deq::lab::config {

template <class Number>
std::string number_toml(Number value) {
  if constexpr (std::is_integral_v<Number>) {
    return std::to_string(value);
  } else {
    return io::number_text(value);
  }
}

template <class Number>
std::string list_toml(const std::vector<Number>& values) {
  std::string text = "[";
  for (const auto value : values) text += (text.size() > 1 ? ", " : "") + number_toml(value);
  return text + "]";
}

/// A number n where that says it all: the span [−n, n].
template <class Ends>
std::string span_toml(const Ends& ends) {
  if (ends.low == -ends.high) return number_toml(ends.high);
  return list_toml(std::vector{ends.low, ends.high});
}

}  // namespace deq::lab::config
