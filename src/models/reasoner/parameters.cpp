#include "models/reasoner/parameters.h"

#include <cmath>
#include <numbers>

namespace deq::models {

torch::Tensor truncated_normal(c10::IntArrayRef shape, double spread,
                               const OptionalGenerator& generator,
                               const torch::TensorOptions& numbers) {
  constexpr double kCut = 2;
  const double inside = std::erf(kCut / std::numbers::sqrt2);
  const double density = std::exp(-kCut * kCut / 2) / std::sqrt(2 * std::numbers::pi);
  const double deviation = std::sqrt(1 - 2 * kCut * density / inside);
  return torch::empty(shape, numbers)
      .uniform_(-inside, inside, generator)
      .erfinv_()
      .mul_(std::numbers::sqrt2 * spread / deviation);
}

}  // namespace deq::models
