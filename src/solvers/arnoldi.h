#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace deq {

/// One column of an Arnoldi factorisation, for every sample of a batch.
struct ArnoldiColumn {
  std::vector<std::vector<double>> dots;  ///< [B][n], the vector along each basis vector
  std::vector<double>
      below;           ///< [B], the length of the rest; 0 where it is in the span to rounding
  torch::Tensor unit;  ///< [B, D], the rest at length 1; zero where below is 0 or not finite
};

/// Splits `vector` into its part along the orthonormal `basis` and the rest, by classical
/// Gram–Schmidt done twice. `slab` supplies uninitialised memory.
ArnoldiColumn orthonormalise(const std::vector<torch::Tensor>& basis, const torch::Tensor& vector,
                             const std::function<torch::Tensor()>& slab);

}  // namespace deq
