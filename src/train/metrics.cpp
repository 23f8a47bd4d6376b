#include "deq/train/metrics.h"

#include <limits>

namespace deq {

double number(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key != name) continue;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace deq
