#include "solvers/small_systems.h"

#include <cmath>
#include <limits>

namespace deq {

bool solve_positive_definite(SmallMatrix& a, std::vector<double>& b) {
  const int64_t n = a.size();
  for (int64_t j = 0; j < n; ++j) {
    double pivot = a(j, j);
    const double floor = pivot * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
    for (int64_t k = 0; k < j; ++k) pivot -= a(j, k) * a(j, k);
    if (!(pivot > floor)) return false;
    a(j, j) = std::sqrt(pivot);
    for (int64_t i = j + 1; i < n; ++i) {
      double value = a(i, j);
      for (int64_t k = 0; k < j; ++k) value -= a(i, k) * a(j, k);
      a(i, j) = value / a(j, j);
    }
  }
  const auto at = [&b](int64_t i) -> double& { return b[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) at(i) -= a(i, k) * at(k);
    at(i) /= a(i, i);
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t k = i + 1; k < n; ++k) at(i) -= a(k, i) * at(k);
    at(i) /= a(i, i);
  }
  return true;
}

}  // namespace deq
