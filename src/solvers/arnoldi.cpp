#include "solvers/arnoldi.h"

#include <cmath>

#include "kernels/history/history.h"

namespace deq {
namespace {
constexpr double kDependent = 1e-14;  // share of the squared length that is rounding
}

ArnoldiColumn orthonormalise(const std::vector<torch::Tensor>& basis, const torch::Tensor& vector,
                             const std::function<torch::Tensor()>& slab) {
  const auto n = basis.size();
  const auto batch = static_cast<size_t>(vector.size(0));
  std::vector<torch::Tensor> rows{vector};
  rows.insert(rows.end(), basis.begin(), basis.end());

  const auto first = kernels::dots(vector, basis);
  auto once = slab();
  kernels::combine(rows, torch::cat({torch::ones({vector.size(0), 1}, torch::kDouble), -first}, 1),
                   once);
  rows[0] = once;
  const auto second = kernels::dots(once, rows);  // ‖once‖², then once·basis

  ArnoldiColumn column{.dots = std::vector(batch, std::vector<double>(n)),
                       .below = std::vector<double>(batch),
                       .unit = slab()};
  auto weights = torch::zeros({vector.size(0), static_cast<int64_t>(n) + 1}, torch::kDouble);
  for (size_t b = 0; b < batch; ++b) {
    const double* h1 = first.const_data_ptr<double>() + b * n;
    const double* h2 = second.const_data_ptr<double>() + b * (n + 1);
    double* w = weights.data_ptr<double>() + b * (n + 1);
    double rest = h2[0], whole = h2[0];
    for (size_t i = 0; i < n; ++i) {
      column.dots[b][i] = h1[i] + h2[i + 1];
      rest -= h2[i + 1] * h2[i + 1];
      whole += column.dots[b][i] * column.dots[b][i];
    }
    column.below[b] = rest <= kDependent * whole ? 0.0 : std::sqrt(rest);
    if (!(column.below[b] > 0) || !std::isfinite(column.below[b])) continue;
    w[0] = 1.0 / column.below[b];
    for (size_t i = 0; i < n; ++i) w[i + 1] = -h2[i + 1] / column.below[b];
  }
  kernels::combine(rows, weights, column.unit);
  return column;
}

}  // namespace deq
