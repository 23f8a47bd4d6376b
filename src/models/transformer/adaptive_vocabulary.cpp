#include "deq/models/transformer/adaptive_vocabulary.h"

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

std::vector<ClusterTokens> part_by_cluster(const torch::Tensor& tokens,
                                           const std::vector<int64_t>& bounds) {
  require(tokens.dim() == 1 && tokens.scalar_type() == torch::kInt64,
          "vocabulary: tokens of shape {} and type {}, must be a list of int64", tokens.sizes(),
          tokens.scalar_type());
  const auto clusters = static_cast<int64_t>(bounds.size()) - 1;
  // Below all clusters is 0, cluster i is i + 1, above all is clusters + 1.
  const auto which = torch::bucketize(tokens.contiguous(), torch::tensor(bounds, tokens.options()),
                                      /*out_int32=*/false, /*right=*/true);
  const auto order = torch::argsort(which, /*stable=*/true);
  const auto counts = torch::bincount(which, {}, clusters + 2).to(torch::kCPU);
  const auto* count = counts.const_data_ptr<int64_t>();
  require(count[0] == 0 && count[clusters + 1] == 0,
          "vocabulary: {} of {} tokens are no words, they must lie in [{}, {})",
          count[0] + count[clusters + 1], tokens.numel(), bounds.front(), bounds.back());
  std::vector<ClusterTokens> parts;
  parts.reserve(static_cast<size_t>(clusters));
  int64_t offset = 0;
  for (int64_t i = 0; i < clusters; ++i) {
    auto positions = order.narrow(0, offset, count[i + 1]);
    auto words = tokens.index_select(0, positions) - bounds[static_cast<size_t>(i)];
    offset += count[i + 1];
    parts.push_back({.positions = std::move(positions), .words = std::move(words)});
  }
  return parts;
}

}  // namespace deq::models
