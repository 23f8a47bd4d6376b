#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "deq/lab/distributed/world.h"
#include "deq/lab/runs/metrics.h"
#include "lab/runs/metrics_writer.h"
#include "lab/train/step_figures.h"
#include "lab/train/training_state.h"

namespace deq::lab {

/// The lines of metrics that a training writes, and its clock. Only the main rank writes.
class TrainingLog {
 public:
  struct Scale {
    int64_t batch_size = 1, steps_per_epoch = 1;
  };
  TrainingLog(std::filesystem::path run, std::shared_ptr<World> world, torch::Device device,
              const Scale& scale, std::function<void(const Metrics&)> on_metrics);

  /// Not before there is something to do in the run folder: what can be refused is refused earlier.
  void open();

  /// The clock goes on from here.
  void start(const TrainingState& state);
  double seconds() const;
  /// Of these, what went into validations.
  double seconds_validating() const { return seconds_validating_; }

  /// A step that counts for the next line on training.
  void add(const StepFigures& figures) { window_.add(figures); }
  bool has_steps() const { return window_.steps() > 0; }

  /// The line on the steps since the last one, with what is known of the last of them.
  void write_steps(const TrainingState& state, const Metrics& last_step);
  /// The line on an evaluation; `begun` is where the clock stood before it.
  void write_evaluation(const TrainingState& state, double begun, const Metrics& metrics);
  /// One that was given up has no line, but has taken its time.
  void leave_evaluation(double begun);

  /// Forgets all after this step: the run goes on from there.
  void rewind(int64_t step);

 private:
  using Clock = std::chrono::steady_clock;
  Metrics head(const TrainingState& state, const std::string& split, double seconds) const;
  void write(const Metrics& line);

  std::filesystem::path run_;
  std::shared_ptr<World> world_;
  torch::Device device_;
  Scale scale_;
  std::function<void(const Metrics&)> on_metrics_;
  std::unique_ptr<MetricsWriter> file_;  // of the main rank
  StepWindow window_;
  Clock::time_point started_, window_start_;
  double seconds_before_ = 0, seconds_validating_ = 0;
};

}  // namespace deq::lab
