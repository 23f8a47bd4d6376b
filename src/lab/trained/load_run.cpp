#include "deq/lab/trained/load_run.h"

#include <utility>

#include "lab/runs/model_state.h"

namespace deq::lab {

LoadedRun load_run(const std::filesystem::path& run, torch::Device device, WhichCheckpoint which,
                   const std::vector<std::string>& overrides) {
  require_run(run);
  auto experiment = read_experiment(config_file(run), overrides);
  auto task = experiment.make_task(device);
  auto checkpoint = read_run_checkpoint(run, which);
  require_classes(checkpoint.classes, task->classes(), checkpoint.path.string());
  require_sample_form(checkpoint.sample_form, task->sample_form(), checkpoint.path.string());
  auto warnings = task->warnings();
  warnings.insert(warnings.end(), checkpoint.warnings.begin(), checkpoint.warnings.end());
  restore_tensors(model_tensors(task->model()), checkpoint.weights, checkpoint.path.string());
  return {.experiment = std::move(experiment),
          .task = std::move(task),
          .warnings = std::move(warnings)};
}

}  // namespace deq::lab
