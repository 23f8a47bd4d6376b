#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/common/host_device.h"

namespace deq {

/// Solves A x = b for a symmetric positive definite A [n, n] by Cholesky, with x in place of b and
/// the factor in place of A. False when A is not positive definite to rounding; then both hold
/// nothing useful.
DEQ_HOST_DEVICE bool solve_positive_definite(double* a, double* b, int64_t n) {
  const auto at = [a, n](int64_t i, int64_t j) -> double& { return a[i * n + j]; };
  for (int64_t j = 0; j < n; ++j) {
    double pivot = at(j, j);
    const double floor = pivot * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
    for (int64_t k = 0; k < j; ++k) pivot -= at(j, k) * at(j, k);
    if (!(pivot > floor)) return false;
    at(j, j) = std::sqrt(pivot);
    for (int64_t i = j + 1; i < n; ++i) {
      double value = at(i, j);
      for (int64_t k = 0; k < j; ++k) value -= at(i, k) * at(j, k);
      at(i, j) = value / at(j, j);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) b[i] -= at(i, k) * b[k];
    b[i] /= at(i, i);
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t k = i + 1; k < n; ++k) b[i] -= at(k, i) * b[k];
    b[i] /= at(i, i);
  }
  return true;
}

}  // namespace deq
