#include "lab/networks/for_vocabulary.h"

#include <algorithm>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/text/vocabulary_cutoffs.h"

namespace deq::lab {

std::vector<int64_t> cutoffs_for(const std::vector<int64_t>& cutoffs, int64_t words) {
  if (cutoffs.empty()) return choose_cutoffs(words);
  const auto largest = std::ranges::max(cutoffs);
  // Cutoffs that were made for a larger text are the usual reason.
  require<UsageError>(
      largest < words,
      "model.cutoffs has {}, but the text has {} different words: every cutoff must be below that; "
      "model.cutoffs = [] chooses them for the text",
      largest, words);
  return cutoffs;
}

}  // namespace deq::lab
