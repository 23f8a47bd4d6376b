#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "deq/lab/distributed/world.h"
#include "deq/lab/train/checkpoints.h"
#include "deq/lab/train/optimiser.h"
#include "deq/lab/train/task.h"
#include "lab/train/training_state.h"
#include "lab/train/weight_average.h"

namespace deq::lab {

/// Brings a training to the disk and back: the main rank's files hold what all ranks have.
class Persistence {
 public:
  Persistence(Task& task, Optimiser& optimiser, const WeightAverage& average,
              std::shared_ptr<World> world, Checkpoints files, std::string config);

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
  std::map<std::string, torch::Tensor> tensors() const;
  TrainingState share(const TrainingState& state,
                      const std::map<std::string, torch::Tensor>& carried);

  Task& task_;
  Optimiser& optimiser_;
  const WeightAverage& average_;
  std::shared_ptr<World> world_;
  Checkpoints files_;
  std::string config_;
};

}  // namespace deq::lab
