#include "lab/train/run_gaps.h"

#include <fmt/format.h>

#include <algorithm>

#include "deq/core/error.h"
#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

int64_t step_of_line(const Metrics& line) {
  const double step = number(line, "step");
  return step == step ? static_cast<int64_t>(step) : 0;
}

int64_t last_step(const std::vector<Metrics>& lines) {
  return lines.empty() ? 0 : step_of_line(lines.back());
}

/// Whether a checkpoint later than `state` was written before the last of these lines.
bool shows_later_checkpoint(const std::vector<Metrics>& lines, const TrainingState& state,
                            const TrainConfig& train) {
  const int64_t last = last_step(lines);
  if (const auto every = train.checkpoints.every_steps) {
    return last > (state.step / *every + 1) * *every;
  }
  // Where the clock decides it does so at the end of a line's steps.
  return std::ranges::any_of(lines, [&](const Metrics& line) {
    const int64_t step = step_of_line(line);
    return step > state.step && step < last && step % train.log_every == 0 &&
           number(line, "seconds") - state.seconds > 60 * train.checkpoints.every_minutes;
  });
}

/// A copy of the metrics beside them, under a name that nothing has.
fs::path keep_metrics(const fs::path& run, int64_t last) {
  auto kept = run / fmt::format("metrics-until-step-{}.jsonl", last);
  for (int n = 2; fs::exists(kept); ++n) {
    kept = run / fmt::format("metrics-until-step-{}-{}.jsonl", last, n);
  }
  std::error_code code;
  fs::copy_file(metrics_file(run), kept, code);
  if (code) io::throw_system_error("write", kept, code.value());
  return kept;
}

}  // namespace

void require_checkpoints(const fs::path& run, const std::vector<Metrics>& lines) {
  const Checkpoints files(checkpoint_folder(run), 1);
  if (lines.empty() || files.any()) return;
  std::string advice = "put one back";
  if (fs::exists(files.best())) {
    const auto best = read_checkpoint_file(files.best());
    const auto state = best.metadata.find(kTrainingStateKey);
    if (state != best.metadata.end()) {
      const auto step = TrainingState::from_json(state->second).step;
      advice += fmt::format(" (a copy of {} as {} will do)", files.best().string(),
                            files.file_of(step).filename().string());
    }
  }
  throw Error(fmt::format(
      "{} has metrics up to step {}, but its checkpoints are gone: {}, or train anew with: deq "
      "train {} --out FOLDER",
      run.string(), last_step(lines), advice, config_file(run).string()));
}

bool is_evaluated(const std::vector<Metrics>& lines, int64_t step) {
  return std::ranges::any_of(lines, [step](const Metrics& line) {
    return text(line, "split") == "valid" && step_of_line(line) == step;
  });
}

std::string lost_lines(const fs::path& run, const std::vector<Metrics>& lines,
                       const TrainingState& state) {
  // Steps that were skipped leave no line.
  const int64_t last = last_step(lines), expected = state.step - state.skipped_in_a_row;
  if (last >= expected) return "";
  return fmt::format(
      "{} ends at step {}, the newest checkpoint is of step {}: the lines between them are lost, "
      "and curves will have a gap",
      metrics_file(run).string(), last, state.step);
}

std::string lost_checkpoints(const fs::path& run, const std::vector<Metrics>& lines,
                             const TrainingState& state, const TrainConfig& train) {
  if (!shows_later_checkpoint(lines, state, train)) return "";
  const int64_t last = last_step(lines);
  return fmt::format(
      "metrics go up to step {}, but the newest checkpoint is of step {}: later ones are gone, and "
      "these steps are trained again; {} keeps the metrics as they are",
      last, state.step, keep_metrics(run, last).string());
}

}  // namespace deq::lab
