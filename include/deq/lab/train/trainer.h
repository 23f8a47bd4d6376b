#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "deq/core/error.h"
#include "deq/lab/distributed/world.h"
#include "deq/lab/runs/metrics.h"
#include "deq/lab/settings/recipe.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// What a training is doing.
enum class TrainingPhase { Pretraining, Training, Evaluating };

/// What a progress bar shows.
struct StepNews {
  int64_t step = 0, steps = 0;
  TrainingPhase phase = TrainingPhase::Training;
  double loss = 0, nfe_forward = 0, residual = 0;  ///< of a step
};

/// All are called on the main rank only, and may be left empty.
struct TrainerHooks {
  std::function<void(const Metrics&)> on_metrics{};  ///< a line of metrics
  std::function<void(const StepNews&)> progress{};   ///< after each step, before each evaluation
  std::function<void(const std::string&)> warn{};    ///< something to know, in a sentence
  /// A signal that asks for an end, or 0. Asked after each step, and often in the validations of a
  /// single process.
  std::function<int()> interrupted{};
};

enum class TrainingEnd { Finished, Interrupted };

/// A run cannot go on: its numbers are not finite, and going back did not help.
class DivergedError : public Error {
 public:
  using Error::Error;
};

/// The one training loop: task loss + τ·γ·penalty, with all that a recipe says.
///
/// Randomness is a function of seed and step, so a run that was stopped anywhere and resumed ends,
/// on the CPU, with the same bits as one that was not.
class Trainer {
 public:
  /// `run` is the run folder, where checkpoints and metrics go. `config` is the effective
  /// configuration as it stands in checkpoints. Where ranks hold the model in parts, `copies` are
  /// those with the same part as this one, which share each batch; else these are all ranks.
  Trainer(Task& task, const Recipe& recipe, const std::string& config,
          const std::filesystem::path& run, std::shared_ptr<World> world, TrainerHooks hooks,
          std::shared_ptr<World> copies = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Goes on from the newest whole checkpoint of the run; from the start where there is none and
  /// nothing was trained yet. What is missing in the run folder is warned of. Throws Error where
  /// going on would overwrite what cannot be made again.
  void resume();

  /// Throws Error when the loss or the gradient stays without a finite value.
  TrainingEnd run();

  /// Done so far.
  int64_t step() const;
  /// Of the whole training.
  int64_t steps() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace deq::lab
