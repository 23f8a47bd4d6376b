#include "deq/lab/data/text/vocabulary_cutoffs.h"

#include <cmath>

#include "core/require.h"

namespace deq::lab {
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
    require(share > previous && share < 1,
            "cutoffs: shares has {:g} after {:g}, must be increasing, > 0 and < 1", share,
            previous);
    previous = share;
  }
  require(options.smallest_cluster >= 1, "cutoffs: smallest_cluster = {}, must be ≥ 1",
          options.smallest_cluster);
}

std::vector<int64_t> choose_cutoffs(int64_t words, const CutoffOptions& options) {
  validate(options);
  require(words >= 1, "cutoffs: words = {}, must be ≥ 1", words);
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

}  // namespace deq::lab
