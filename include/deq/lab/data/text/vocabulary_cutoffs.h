#pragma once

#include <cstdint>
#include <vector>

namespace deq::lab {

/// How a vocabulary is divided into clusters for an adaptive embedding and softmax. The defaults
/// are the authors' cut-offs for WikiText-103 in proportion: 20 000, 40 000 and 200 000 of 267 735
/// words.
struct CutoffOptions {
  /// Parts of the vocabulary before each cut, increasing, each in (0, 1); none: one cluster.
  std::vector<double> shares{20'000.0 / 267'735, 40'000.0 / 267'735, 200'000.0 / 267'735};
  int64_t smallest_cluster = 1000;  ///< ≥ 1 words; a cut that would make a smaller one is left out
};

void validate(const CutoffOptions& options);

/// shares · words, each rounded to two digits, taken from the first on unless fewer than
/// smallest_cluster words would lie between it and the cut taken before it, or between it and the
/// end: strictly increasing, > 0 and < words. `words` ≥ 1.
std::vector<int64_t> choose_cutoffs(int64_t words, const CutoffOptions& options = {});

}  // namespace deq::lab
