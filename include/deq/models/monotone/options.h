#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deq::models {

/// How a monotone network's equilibrium is made a fixed point of a map that can be iterated.
enum class Splitting {
  PeacemanRachford,  ///< a contraction for every alpha; inverts the linear part once per solve
  ForwardBackward,   ///< convolutions only; a contraction for small alpha. alpha = 1: the plain map
};

/// A monotone operator equilibrium network for square images (Winston and Kolter 2020):
/// z = ReLU(W z + U x + b) with W = (1 − m) I − AᵀA + B − Bᵀ, which has exactly one solution.
/// Tier i has half the height and width of tier i − 1. The defaults are the authors' single
/// convolution for CIFAR-10.
struct MonotoneOptions {
  int64_t image_channels = 3;         ///< ≥ 1
  int64_t image_size = 32;            ///< ≥ 2, a multiple of 2^(tiers − 1)
  std::vector<int64_t> channels{81};  ///< of each tier, finest first; ≥ 1
  double strength = 1.0;              ///< m > 0
  Splitting splitting = Splitting::PeacemanRachford;
  double alpha = 1.0;    ///< the splitting's step, > 0
  int64_t classes = 10;  ///< ≥ 1

  size_t tiers() const { return channels.size(); }
  /// Height and width of a tier, the border of zeros included.
  int64_t tier_size(size_t tier) const { return (image_size >> tier) + 2; }
};

/// Throws Error naming the field, its value and the constraint.
void validate(const MonotoneOptions& options);

}  // namespace deq::models
