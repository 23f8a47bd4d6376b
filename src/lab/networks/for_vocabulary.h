#pragma once

#include <cstdint>
#include <vector>

namespace deq::lab {

/// Those for a text of so many different words: as they are, or chosen where there are none.
std::vector<int64_t> cutoffs_for(const std::vector<int64_t>& cutoffs, int64_t words);

/// Options of a network whose vocabulary is the text's. All clusters except the first share their
/// projections.
template <class Options>
Options for_vocabulary(Options options, int64_t words) {
  options.vocabulary = words;
  options.cutoffs = cutoffs_for(options.cutoffs, words);
  options.tie_projections.assign(options.cutoffs.size() + 1, true);
  options.tie_projections.front() = false;
  return options;
}

}  // namespace deq::lab
