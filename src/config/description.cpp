#include "config/description.h"

#include <c10/util/StringUtil.h>

#include <cmath>

namespace deq::config {

bool Range::contains(double value) const {
  if (!std::isfinite(value)) return false;
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::text() const {
  const bool bounded_below = std::isfinite(low);
  const bool bounded_above = std::isfinite(high);
  if (bounded_below && bounded_above) {
    return c10::str("in ", low_open ? "(" : "[", low, ", ", high, high_open ? ")" : "]");
  }
  if (bounded_below) return c10::str(low_open ? "> " : "≥ ", low);
  if (bounded_above) return c10::str(high_open ? "< " : "≤ ", high);
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
  return c10::str("a list of ", kind, " numbers", text.empty() ? "" : " ", text);
}

std::string allowed_names(const std::vector<std::string_view>& names) {
  if (names.size() == 1) return c10::str("\"", names[0], "\"");
  if (names.size() == 2) return c10::str("\"", names[0], "\" or \"", names[1], "\"");
  std::string text = "one of";
  for (const std::string_view name : names) {
    text += c10::str(name == names.front() ? " \"" : ", \"", name, "\"");
  }
  return text;
}

}  // namespace deq::config
