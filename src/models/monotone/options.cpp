#include "deq/models/monotone/options.h"

#include <cmath>
#include <string_view>

#include "core/require.h"

namespace deq::models {
namespace {

void at_least(std::string_view field, int64_t value, int64_t least) {
  require(value >= least, "monotone: {} = {}, must be ≥ {}", field, value, least);
}

void positive(std::string_view field, double value) {
  require(value > 0 && std::isfinite(value), "monotone: {} = {:g}, must be > 0", field, value);
}

}  // namespace

void validate(const MonotoneOptions& options) {
  const auto tiers = options.tiers();
  require(tiers >= 1 && tiers <= 16,
          "monotone: channels has {} entries, must have 1 to 16, one per tier", tiers);
  for (const auto channels : options.channels) at_least("channels", channels, 1);
  at_least("image_channels", options.image_channels, 1);
  at_least("image_size", options.image_size, 2);
  const auto smallest = int64_t{1} << (tiers - 1);
  require(options.image_size % smallest == 0,
          "monotone: image_size = {}, must be a multiple of {} to be halved for each of {} tiers",
          options.image_size, smallest, tiers);
  positive("strength", options.strength);
  positive("alpha", options.alpha);
  at_least("classes", options.classes, 1);
}

}  // namespace deq::models
