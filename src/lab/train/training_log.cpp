#include "lab/train/training_log.h"

#include <utility>

#include "lab/train/memory.h"

namespace deq::lab {

TrainingLog::TrainingLog(std::filesystem::path run, std::shared_ptr<World> world,
                         torch::Device device, const Scale& scale,
                         std::function<void(const Metrics&)> on_metrics)
    : run_(std::move(run)),
      world_(std::move(world)),
      device_(device),
      scale_(scale),
      on_metrics_(std::move(on_metrics)) {}

void TrainingLog::open() {
  if (world_->is_main() && !file_) file_ = std::make_unique<MetricsWriter>(run_);
}

void TrainingLog::start(const TrainingState& state) {
  started_ = window_start_ = Clock::now();
  seconds_before_ = state.seconds;
  seconds_validating_ = state.seconds_validating;
}

double TrainingLog::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
}

Metrics TrainingLog::head(const TrainingState& state, const std::string& split,
                          double seconds) const {
  return {{"step", state.step},
          {"epoch", 1 + (state.step - 1) / scale_.steps_per_epoch},
          {"split", split},
          {"seconds", seconds},
          {"train_seconds", seconds - seconds_validating_}};
}

void TrainingLog::write_steps(const TrainingState& state, const Metrics& last_step) {
  auto line = head(state, "train", seconds());
  append(line, window_.means());
  append(line, last_step);
  const double passed = std::chrono::duration<double>(Clock::now() - window_start_).count();
  const auto samples = static_cast<double>(window_.steps() * scale_.batch_size);
  append(line,
         {{"samples_per_s", samples / passed}, {"peak_memory_mib", peak_memory_mib(device_)}});
  write(line);
  window_ = {};
  window_start_ = Clock::now();
}

void TrainingLog::write_evaluation(const TrainingState& state, double begun,
                                   const Metrics& metrics) {
  auto line = head(state, "valid", begun);
  append(line, metrics);
  write(line);
  leave_evaluation(begun);
}

void TrainingLog::leave_evaluation(double begun) {
  seconds_validating_ += seconds() - begun;
  window_start_ = Clock::now();  // the throughput is that of training alone
}

void TrainingLog::rewind(int64_t step) {
  window_ = {};
  if (file_) file_->rewind(step);
}

void TrainingLog::write(const Metrics& line) {
  if (!world_->is_main()) return;
  file_->write(line);
  if (on_metrics_) on_metrics_(line);
}

}  // namespace deq::lab
