#include "lab/base/likely_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace deq::lab {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

size_t close_enough(std::string_view typed) {
  return std::max<size_t>(1, typed.size() / 3);
}

std::string_view likely_name(std::string_view typed, const std::vector<std::string_view>& names) {
  std::string_view likely;
  size_t least = close_enough(typed) + 1;
  for (const auto name : names) {
    const size_t distance = edit_distance(typed, name);
    if (distance >= least) continue;
    least = distance;
    likely = name;
  }
  return likely;
}

}  // namespace deq::lab
