#include "lab/config/description.h"

#include <fmt/format.h>
#include <cmath>

namespace deq::lab::config {

bool Range::contains(double value) const {
  if (!std::isfinite(value)) return false;
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::text() const {
  const bool bounded_below = std::isfinite(low);
  const bool bounded_above = std::isfinite(high);
  if (bounded_below && bounded_above) {
    return fmt::format("in {}{:g}, {:g}{}", low_open ? "(" : "[", low, high, high_open ? ")" : "]");
  }
  if (bounded_below) return fmt::format("{}{:g}", low_open ? "> " : "≥ ", low);
  if (bounded_above) return fmt::format("{}{:g}", high_open ? "< " : "≤ ", high);
  return {};
}

std::string allowed_whole(const Range& range) {
  const std::string text = range.text();
  return text.empty() ? "a whole number" : "a whole number " + text;
}

std::string allowed_number(const Range& range) {
  const std::string text = range.text();
  return text.empty() ? "a finite number" : "a finite number " + text;
}

std::string allowed_list(std::string_view kind, const Range& range) {
  const std::string text = range.text();
  return fmt::format("a list of {} numbers{}{}", kind, text.empty() ? "" : " ", text);
}

std::string allowed_span(const Range& range) {
  return "a whole number n ≥ 0, for [-n, n], or a list [low, high] of two " + range.text();
}

std::string allowed_names(const std::vector<std::string_view>& names) {
  if (names.size() == 1) return fmt::format("\"{}\"", names[0]);
  if (names.size() == 2) return fmt::format("\"{}\" or \"{}\"", names[0], names[1]);
  std::string text = "one of";
  for (const std::string_view name : names) {
    text += fmt::format("{}\"{}\"", name == names.front() ? " " : ", ", name);
  }
  return text;
}

}  // namespace deq::lab::config
