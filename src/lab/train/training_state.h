#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace deq::lab {

/// Where it stands in a checkpoint's metadata.
inline constexpr const char* kTrainingStateKey = "training_state";

/// Where a training stands, beside its tensors. Everything random is a function of the seed and the
/// step, and so is the loader's position: the step stands for them.
struct TrainingState {
  int64_t step = 0;
  double seconds = 0;             ///< since the training began, as far as it ran
  double seconds_validating = 0;  ///< of these
  double lr_scale = 1;            ///< below 1 after the run had to go back
  int64_t skipped = 0;            ///< steps whose loss or gradient was not finite
  int64_t skipped_in_a_row = 0;
  int64_t rollbacks = 0;  ///< how often the run went back
  std::optional<double> best{};
  std::optional<int64_t> best_step{};  ///< where it was measured
  bool unevaluated = false;            ///< the validation that is due at this step was given up

  // The controller's.
  double gamma = 0;
  std::optional<double> held_smoothed{};  ///< what it has measured
  double held_sum = 0;                    ///< what it is measuring, since its last adjustment
  int64_t held_steps = 0;

  std::string to_json() const;
  /// Throws Error where the text is not what to_json() writes.
  static TrainingState from_json(const std::string& json);
};

}  // namespace deq::lab
