#include "lab/tasks/starts.h"

#include <string_view>
#include <type_traits>
#include <variant>

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {
namespace {

/// What a network has for these penalties.
struct Starts {
  bool solved = true;  ///< it has an equilibrium
  bool predicted = false;
};

Starts starts_of(const models::MdeqOptions& model) {
  return {.predicted = model.predicted_start};
}
Starts starts_of(const models::MonotoneOptions&) {
  return {};
}
Starts starts_of(const DeqTransformerModel& model) {
  return {.predicted = model.predicted_start};
}
Starts starts_of(const LoopedModel&) {
  return {};
}
template <class Explicit>
Starts starts_of(const Explicit&) {
  return {.solved = false};
}

template <class... Models>
Starts starts_of(const std::variant<Models...>& model) {
  return std::visit([](const auto& chosen) { return starts_of(chosen); }, model);
}

void require_sensible(const Recipe& recipe, const Starts& starts) {
  const auto& train = recipe.train;
  require<UsageError>(starts.solved || train.start_noise == 0,
                      "train.start_noise = {:g}: this network has no equilibrium, so no solve "
                      "begins anywhere",
                      train.start_noise);
  require<UsageError>(starts.solved || recipe.jacobian.control.hold == Held::Nothing,
                      "jacobian.control.hold must be \"nothing\": this network has no equilibrium, "
                      "so there is nothing that gamma could hold");
  require<UsageError>(train.step_evals == 0 || train.step_penalty > 0,
                      "train.step_evals = {} does nothing without train.step_penalty",
                      train.step_evals);
  const auto budget = max_evals(recipe.solver.forward);
  require<UsageError>(train.step_evals == 0 || train.step_evals < budget,
                      "train.step_evals = {}: must be less than solver.forward.max_evals = {}, "
                      "since the step is to begin on the way of a solve",
                      train.step_evals, budget);
  const auto refuse = [&](std::string_view key, double weight) {
    if (weight == 0) return;
    require<UsageError>(starts.solved,
                        "{} = {:g}: this network has no equilibrium, so there is no solve to "
                        "shorten",
                        key, weight);
    const bool solves = !std::holds_alternative<UnrolledGradient>(recipe.gradient) &&
                        !std::holds_alternative<Reversible>(recipe.gradient);
    require<UsageError>(solves,
                        "{} = {:g}: with this gradient.name training takes a fixed number of steps "
                        "and finds no equilibrium to measure a distance to",
                        key, weight);
  };
  refuse("train.start_penalty", train.start_penalty);
  refuse("train.step_penalty", train.step_penalty);
  require<UsageError>(train.start_penalty == 0 || starts.predicted,
                      "train.start_penalty = {:g}: this network has no start that could learn; "
                      "model.predicted_start = true gives one to mdeq, deq-transformer and the "
                      "segmentation's network",
                      train.start_penalty);
}

}  // namespace

void require_sensible_starts(const SyntheticConfig& config) {
  require_sensible(config, {});
}
void require_sensible_starts(const VisionConfig& config) {
  require_sensible(config, starts_of(config.model));
}
void require_sensible_starts(const LanguageConfig& config) {
  require_sensible(config, starts_of(config.model));
}
void require_sensible_starts(const SegmentationConfig& config) {
  require_sensible(config, starts_of(config.model.mdeq));
}
void require_sensible_starts(const ReasoningConfig& config) {
  require_sensible(config, {});
}

}  // namespace deq::lab
