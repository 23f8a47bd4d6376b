#include "distributed/first_difference.h"

#include <c10/util/StringUtil.h>

#include <sstream>

namespace deq::distributed {

std::string first_difference(const std::string& rank_0, const std::string& other) {
  std::istringstream expected(rank_0), found(other);
  for (int line = 1;; ++line) {
    std::string a, b;
    const bool has_a = static_cast<bool>(std::getline(expected, a));
    const bool has_b = static_cast<bool>(std::getline(found, b));
    if (!has_a && !has_b) return "they end differently";  // in a newline that one of them lacks
    if (has_a && has_b && a == b) continue;
    const auto quoted = [](bool has, const std::string& text) {
      return has ? "\"" + text + "\"" : std::string("missing");
    };
    return c10::str("line ", line, " is ", quoted(has_b, b), ", on rank 0 ", quoted(has_a, a));
  }
}

}  // namespace deq::distributed
