#include "solvers/broyden_inverse.h"

#include <algorithm>

#include "core/require.h"
#include "kernels/history/history.h"
#include "solvers/broyden_direction.h"

namespace deq {

void broyden_left_product(const BroydenUpdates& updates, const double* dots, double* coefficients) {
  const auto gram = [&updates](int64_t i, int64_t j) {
    return updates.gram[static_cast<size_t>(triangle(std::max(i, j)) + std::min(i, j))];
  };
  double* const a = coefficients + 1;
  coefficients[0] = 1.0;
  const int64_t newest = updates.taken - 2;  // update
  for (int64_t k = newest; k >= updates.first; --k) {
    double along_next = dots[k + 1], along = dots[k];
    for (int64_t j = k + 1; j <= newest; ++j) {
      along_next += a[j] * gram(j, k + 1);
      along += a[j] * gram(j, k);
    }
    const double length = updates.length(k), ratio = length / updates.length(k + 1);
    a[k] = (ratio * along_next + (length - 1.0) * along) / gram(k, k);
  }
}

torch::Tensor BroydenInverse::left_product(const torch::Tensor& g) const {
  const auto batch = static_cast<int64_t>(samples_.size());
  require(g.dim() == 2 && g.size(0) == batch,
          "the inverse of {} samples was given a gradient of shape {}", batch, g.sizes());
  const torch::NoGradGuard no_grad;
  const auto own = g.contiguous();
  const auto dots = kernels::dots(own, steps_);
  const auto columns = static_cast<int64_t>(steps_.size());
  auto coefficients = torch::zeros({batch, columns + 1}, torch::kDouble);
  for (int64_t b = 0; b < batch; ++b) {
    broyden_left_product(samples_[static_cast<size_t>(b)],
                         dots.const_data_ptr<double>() + b * columns,
                         coefficients.data_ptr<double>() + b * (columns + 1));
  }
  std::vector<torch::Tensor> rows{own};
  rows.insert(rows.end(), steps_.begin(), steps_.end());
  auto result = torch::empty_like(own);
  kernels::combine(rows, coefficients, result);
  return result;
}

}  // namespace deq
