#include "deq/models/transformer/adaptive_vocabulary.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/require.h"

namespace deq::models {
namespace {

void at_least(std::string_view field, int64_t value, int64_t least) {
  require(value >= least, "vocabulary: {} = {}, must be ≥ {}", field, value, least);
}

}  // namespace

int64_t AdaptiveVocabulary::first_word(int64_t cluster) const {
  if (cluster == 0) return 0;
  return cluster == clusters() ? words : cutoffs.at(static_cast<size_t>(cluster - 1));
}

int64_t AdaptiveVocabulary::width(int64_t cluster) const {
  int64_t width = d_embed;
  for (int64_t i = 0; i < cluster; ++i) width /= div_val;
  return width;
}

void validate(const AdaptiveVocabulary& vocabulary) {
  at_least("words", vocabulary.words, 1);
  at_least("d_model", vocabulary.d_model, 1);
  at_least("d_embed", vocabulary.d_embed, 1);
  at_least("div_val", vocabulary.div_val, 1);
  int64_t before = 0;
  for (const auto cutoff : vocabulary.cutoffs) {
    require(
        cutoff > before && cutoff < vocabulary.words,
        "vocabulary: cutoffs has {} after {}, they must increase and lie between 0 and words = {}",
        cutoff, before, vocabulary.words);
    before = cutoff;
  }
  const auto last = vocabulary.clusters() - 1;
  require(vocabulary.width(last) >= 1,
          "vocabulary: d_embed = {} leaves no width for cluster {}, must be ≥ div_val^{} with "
          "div_val = {}",
          vocabulary.d_embed, last, last, vocabulary.div_val);
  require(vocabulary.init_std >= 0, "vocabulary: init_std = {:g}, must be ≥ 0",
          vocabulary.init_std);
  require(vocabulary.projection_init_std >= 0,
          "vocabulary: projection_init_std = {:g}, must be ≥ 0", vocabulary.projection_init_std);
}

void require_words(const torch::Tensor& tokens, int64_t first, int64_t end) {
  const auto others = (tokens < first).logical_or_(tokens >= end).sum().item<int64_t>();
  require(others == 0, "vocabulary: {} of {} tokens are no words, they must lie in [{}, {})",
          others, tokens.numel(), first, end);
}

std::vector<ClusterTokens> part_by_cluster(const torch::Tensor& tokens,
                                           const std::vector<int64_t>& bounds) {
  require(tokens.dim() == 1 && tokens.scalar_type() == torch::kInt64,
          "vocabulary: tokens of shape {} and type {}, must be a list of int64", tokens.sizes(),
          tokens.scalar_type());
  // On the host: for a few thousand words a GPU's sort and its sums take longer than the way here
  // and back.
  const auto here = tokens.to(torch::kCPU).contiguous();
  require_words(here, bounds.front(), bounds.back());
  const auto* const token = here.const_data_ptr<int64_t>();
  const auto cluster_of = [&bounds](int64_t word) {
    return std::upper_bound(bounds.begin(), bounds.end(), word) - bounds.begin() - 1;
  };
  const auto clusters = bounds.size() - 1, count = static_cast<size_t>(here.numel());
  std::vector<int64_t> sizes(clusters, 0);
  for (size_t i = 0; i < count; ++i) ++sizes[static_cast<size_t>(cluster_of(token[i]))];
  std::vector<int64_t> next(clusters, 0);
  std::partial_sum(sizes.begin(), sizes.end() - 1, next.begin() + 1);
  const auto sorted = torch::empty({2, here.numel()}, torch::kInt64);
  auto* const positions = sorted.mutable_data_ptr<int64_t>();
  auto* const words = positions + count;
  for (size_t i = 0; i < count; ++i) {
    const auto cluster = static_cast<size_t>(cluster_of(token[i]));
    const auto place = static_cast<size_t>(next[cluster]++);
    positions[place] = static_cast<int64_t>(i);
    words[place] = token[i] - bounds[cluster];
  }
  const auto there = sorted.to(tokens.device());
  std::vector<ClusterTokens> parts;
  int64_t first = 0;
  for (const auto size : sizes) {
    parts.push_back(
        {.positions = there[0].narrow(0, first, size), .words = there[1].narrow(0, first, size)});
    first += size;
  }
  return parts;
}

}  // namespace deq::models
