#include "deq/models/mdeq/options.h"

#include <limits>

#include "core/require.h"

namespace deq::models {
namespace {

void at_least(std::string_view field, int64_t value, int64_t least) {
  require(value >= least, "mdeq: {} = {}, must be ≥ {}", field, value, least);
}

/// One entry per scale, each in [least, most].
void each_scale(std::string_view field, const std::vector<int64_t>& values, size_t scales,
                int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
  require(values.size() == scales,
          "mdeq: {} has {} entries, must have one for each of the {} scales", field, values.size(),
          scales);
  for (const auto value : values) {
    at_least(field, value, least);
    require(value <= most, "mdeq: {} = {}, must be ≤ {}", field, value, most);
  }
}

}  // namespace

void validate(const MdeqOptions& options) {
  const auto scales = options.scales();
  require(scales >= 1 && scales <= 16,
          "mdeq: channels has {} entries, must have 1 to 16, one per scale", scales);
  at_least("image_channels", options.image_channels, 1);
  at_least("expansion", options.expansion, 1);
  at_least("groups", options.groups, 2);
  each_scale("channels", options.channels, scales, 1);
  for (const auto channels : options.channels) {
    require(channels % options.groups == 0 && channels % (options.groups / 2) == 0,
            "mdeq: channels = {}, must be a multiple of groups = {} and of half of it", channels,
            options.groups);
  }
  if (!options.blocks.empty()) each_scale("blocks", options.blocks, scales, 1);
  if (!options.big_kernels.empty()) each_scale("big_kernels", options.big_kernels, scales, 0, 2);
  require(options.dropout >= 0 && options.dropout < 1, "mdeq: dropout = {:g}, must be in [0, 1)",
          options.dropout);
  at_least("downsample_times", options.downsample_times, 0);
  each_scale("head_channels", options.head_channels, scales, 1);
  at_least("final_channels", options.final_channels, 1);
  at_least("classes", options.classes, 1);
}

}  // namespace deq::models
