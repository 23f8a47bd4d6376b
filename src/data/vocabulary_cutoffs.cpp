#include "deq/data/vocabulary_cutoffs.h"

#include <cmath>

#include "deq/core/error.h"

namespace deq {
namespace {

int64_t rounded_to_two_digits(double value) {
  int64_t unit = 1;
  while (value / static_cast<double>(unit) >= 100) unit *= 10;
  return std::llround(value / static_cast<double>(unit)) * unit;
}

}  // namespace

void validate(const CutoffOptions& options) {
  double previous = 0;
  for (const double share : options.shares) {
    require(share > previous && share < 1, "cutoffs: shares has ", share, " after ", previous,
            ", must be increasing, > 0 and < 1");
    previous = share;
  }
  require(options.smallest_cluster >= 1, "cutoffs: smallest_cluster = ", options.smallest_cluster,
          ", must be ≥ 1");
}

std::vector<int64_t> choose_cutoffs(int64_t words, const CutoffOptions& options) {
  validate(options);
  require(words >= 1, "cutoffs: words = ", words, ", must be ≥ 1");
  std::vector<int64_t> cutoffs;
  int64_t previous = 0;
  for (const double share : options.shares) {
    const auto cutoff = rounded_to_two_digits(share * static_cast<double>(words));
    if (cutoff - previous < options.smallest_cluster) continue;
    if (words - cutoff < options.smallest_cluster) break;
    cutoffs.push_back(cutoff);
    previous = cutoff;
  }
  return cutoffs;
}

}  // namespace deq
