#pragma once

#include <string_view>

#include "core/require.h"

namespace deq::models {

/// The fields that the Transformers have.
template <class Options>
void check_transformer(std::string_view who, const Options& options) {
  const auto at_least_one = [who](std::string_view field, int64_t value) {
    require(value >= 1, "{}: {} = {}, must be ≥ 1", who, field, value);
  };
  at_least_one("vocabulary", options.vocabulary);
  require(options.d_model >= 2 && options.d_model % 2 == 0,
          "{}: d_model = {}, must be even and ≥ 2", who, options.d_model);
  at_least_one("heads", options.heads);
  if constexpr (requires { options.d_head; }) at_least_one("d_head", options.d_head);
  at_least_one("d_inner", options.d_inner);
  const auto rate = [who](std::string_view field, double value) {
    require(value >= 0 && value < 1, "{}: {} = {:g}, must be in [0, 1)", who, field, value);
  };
  rate("dropout", options.dropout);
  rate("attention_dropout", options.attention_dropout);
  require(options.init_std >= 0, "{}: init_std = {:g}, must be ≥ 0", who, options.init_std);
  const auto ties = options.tie_projections.size();
  require(ties == 0 || ties == options.cutoffs.size() + 1,
          "{}: tie_projections has {} entries, must have none or one for each of the {} clusters",
          who, ties, options.cutoffs.size() + 1);
}

}  // namespace deq::models
