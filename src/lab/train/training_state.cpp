#include "lab/train/training_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "deq/core/error.h"

namespace deq::lab {
namespace {

using nlohmann::json;

template <class Number = double>
std::optional<Number> optional_state(const json& object, const char* key) {
  return object.contains(key) ? std::optional(object.at(key).get<Number>()) : std::nullopt;
}

}  // namespace

std::string TrainingState::to_json() const {
  json object{
      {"step", step},         {"seconds", seconds},       {"lr_scale", lr_scale},
      {"skipped", skipped},   {"rollbacks", rollbacks},   {"gamma", gamma},
      {"held_sum", held_sum}, {"held_steps", held_steps}, {"skipped_in_a_row", skipped_in_a_row}};
  object["seconds_validating"] = seconds_validating;
  if (unevaluated) object["unevaluated"] = true;
  if (best) object["best"] = *best;
  if (best_step) object["best_step"] = *best_step;
  if (held_smoothed) object["held_smoothed"] = *held_smoothed;
  return object.dump();
}

TrainingState TrainingState::from_json(const std::string& text) {
  try {
    const json object = json::parse(text);
    return {.step = object.at("step").get<int64_t>(),
            .seconds = object.at("seconds").get<double>(),
            // Older runs did not measure it.
            .seconds_validating = object.value("seconds_validating", 0.0),
            .lr_scale = object.at("lr_scale").get<double>(),
            .skipped = object.at("skipped").get<int64_t>(),
            .skipped_in_a_row = object.at("skipped_in_a_row").get<int64_t>(),
            .rollbacks = object.at("rollbacks").get<int64_t>(),
            .best = optional_state(object, "best"),
            .best_step = optional_state<int64_t>(object, "best_step"),
            .unevaluated = object.value("unevaluated", false),
            .gamma = object.at("gamma").get<double>(),
            .held_smoothed = optional_state(object, "held_smoothed"),
            .held_sum = object.at("held_sum").get<double>(),
            .held_steps = object.at("held_steps").get<int64_t>()};
  } catch (const json::exception& error) {
    throw Error(fmt::format("the training state is not readable: {}", error.what()));
  }
}

}  // namespace deq::lab
