#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "deq/lab/distributed/world.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/train/optimiser.h"
#include "deq/lab/train/task.h"
#include "lab/train/training_state.h"
#include "lab/train/weight_average.h"

namespace deq::lab {

/// Brings a training to the disk and back: the main rank's files hold what all ranks have.
class Persistence {
 public:
  /// `copies` are the ranks that hold the same part of the model as this one.
  Persistence(Task& task, Optimiser& optimiser, const WeightAverage& average,
              std::shared_ptr<World> world, std::shared_ptr<World> copies, Checkpoints files,
              std::string config);

  /// One checkpoint, written by the main rank once all have come so far.
  void save(const TrainingState& state);
  void mark_best(int64_t step);

  /// The newest whole checkpoint into model, optimiser and task, of every rank; where there is
  /// none, what the main rank has at the moment. Returns the state it was saved with, or
  /// `otherwise`.
  TrainingState load_newest(const TrainingState& otherwise,
                            const std::function<void(const std::string&)>& warn);

  /// Every rank gets what the main rank has, at the beginning.
  TrainingState share(const TrainingState& state);

 private:
  using Tensors = std::map<std::string, torch::Tensor>;

  /// Of this rank.
  Tensors tensors() const;
  /// Of the whole model: where ranks hold it in parts, those that share one call it.
  Tensors whole_tensors() const;
  /// `loaded` is the whole state that the main rank has read, where ranks hold the model in parts.
  TrainingState share(const TrainingState& state, const Tensors& carried, const Tensors& loaded);

  Task& task_;
  Optimiser& optimiser_;
  const WeightAverage& average_;
  std::shared_ptr<World> world_, copies_;
  Checkpoints files_;
  std::string config_;
};

}  // namespace deq::lab
