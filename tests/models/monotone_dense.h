#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "deq/models/monotone/cell.h"

namespace deq::test {

/// A monotone network in dense matrices, from the cell's parameters by name: the formulas of the
/// paper, none of the library's convolutions. Everything is on the tape.
class DenseMonotone {
 public:
  DenseMonotone(const models::MonotoneOptions& options, const torch::nn::Module& cell);

  torch::Tensor w;     ///< [N, N], (1 − m) I − AᵀA + B − Bᵀ
  torch::Tensor mask;  ///< [N], 1 inside and 0 on the borders

  torch::Tensor m() const { return torch::eye(w.size(0), w.options()) - w; }
  /// U x + b, [B, N], for images that have their border.
  torch::Tensor injection(const torch::Tensor& image) const;
  /// ReLU that keeps the borders at zero.
  torch::Tensor rectified(const torch::Tensor& z) const { return z.relu() * mask; }
  /// z = R(W z + U x + b), [B, N]: which entries are positive by iteration, their values by a dense
  /// linear solve. Throws if the equation does not hold.
  torch::Tensor solution(const torch::Tensor& image) const;

 private:
  models::MonotoneOptions options_;
  torch::Tensor u_, bias_;
};

/// The matrix of a 3×3 convolution of a size×size image that wraps around. With stride 2 its result
/// gets a further row and column of zeros.
torch::Tensor convolution_matrix(const torch::Tensor& kernel, int64_t size, int64_t stride = 1);

/// One tier of an odd size, two and three tiers; and a cell with gains of its own.
std::vector<models::MonotoneOptions> small_monotone();
models::MonotoneCell small_monotone_cell(const models::MonotoneOptions& options,
                                         at::Generator generator, double gain = 2);

}  // namespace deq::test
