#pragma once

#include "deq/lab/settings/synthetic.h"
#include "lab/config/description.h"
#include "lab/settings/describe_recipe.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

template <class Visitor>
void describe(Visitor& v, SyntheticData& data) {
  v.number("train_samples", data.train_samples, at_least(1), "Pairs (x, y) to train on.");
  v.number("valid_samples", data.valid_samples, at_least(1), "Pairs (x, y) to validate on.");
  v.number("noise", data.noise, at_least(0), "The standard deviation of the noise added to y.");
  v.number("x_min", data.x_min, any_number(), "The lower end of the interval x is drawn from.");
  v.number("x_max", data.x_max, any_number(), "Its upper end, above x_min.");
  v.in_order("x_min", data.x_min, Relation::Less, "x_max", data.x_max);
}

template <class Visitor>
void describe(Visitor& v, SyntheticModel& model) {
  v.number("hidden", model.hidden, at_least(1), "Hidden units of f.");
}

template <class Visitor>
void describe(Visitor& v, SyntheticConfig& config) {
  describe_top(v, config, kSynthetic);
  v.table("data", config.data, "The samples.");
  v.table("model", config.model, "The layer f.");
  describe_tables(v, config);
}

}  // namespace deq::lab::config
