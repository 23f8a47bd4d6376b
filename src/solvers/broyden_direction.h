#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/common/host_device.h"

// Broyden's recurrence (notation in broyden.cpp) for one sample, on plain arrays, for host and
// device.

namespace deq {

/// Where row i of a symmetric matrix begins: its lower triangle is kept, row by row.
DEQ_HOST_DEVICE int64_t triangle(int64_t row) {
  return row * (row + 1) / 2;
}

/// The coefficients c of −H g on [g, s₀, …, sₙ₋₁], where `n` steps are kept and those before
/// `first` are not used; n + 1 zeros at first. `dots` are g·sⱼ, `gram` the triangle of sᵢ·sⱼ,
/// `lengths` the λⱼ (null: all 1), `along` room for n numbers. False when the secant condition has
/// no usable solution: then c is the plain step.
DEQ_HOST_DEVICE bool broyden_direction(const double* dots, const double* gram,
                                       const double* lengths, int64_t first, int64_t n,
                                       double* along, double* c) {
  constexpr double kSmallestDenominator = 1e-10;  // of sᵀHy, in units of ‖s‖²
  const auto length = [lengths](int64_t j) { return lengths == nullptr ? 1.0 : lengths[j]; };
  const int64_t newest = n - 1;
  c[0] = 1.0;
  if (newest < first) return true;
  // along[j] is sⱼ·w without its own term, for the w built so far. A line search asks for g·s
  // before it shortens the newest step.
  for (int64_t j = first; j < newest; ++j) along[j] = dots[j];
  along[newest] = dots[newest] * length(newest);
  for (int64_t j = first; j < newest; ++j) {
    const double square = gram[triangle(j) + j];
    const double a = (along[j] + c[j + 1] * square) / square;
    c[j + 2] += a * length(j) / length(j + 1);
    c[j + 1] += a * (length(j) - 1.0);
    for (int64_t i = j + 1; i <= newest; ++i) along[i] += c[j + 1] * gram[triangle(i) + j];
  }
  const double square = gram[triangle(newest) + newest];
  const double sigma = along[newest] + c[newest + 1] * square;
  const double denominator = square / length(newest) - sigma;
  if (!std::isfinite(sigma) || !(std::abs(denominator) > kSmallestDenominator * square)) {
    for (int64_t i = 1; i <= n; ++i) c[i] = 0.0;
    c[0] = 1.0;
    return false;
  }
  const double gain = 1.0 + sigma / denominator;
  for (int64_t i = 0; i <= n; ++i) c[i] *= gain;
  c[n] += (1.0 - 1.0 / length(newest)) * sigma / denominator;
  return true;
}

}  // namespace deq
