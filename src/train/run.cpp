#include "deq/train/run.h"

#include <map>
#include <vector>

#include "deq/core/error.h"
#include "deq/io/checkpoint_file.h"
#include "deq/train/checkpoints.h"
#include "train/model_state.h"

namespace deq {
namespace {

Checkpoints::Found checkpoint_of(const std::filesystem::path& run, WhichCheckpoint which,
                                 std::vector<std::string>& warnings) {
  const Checkpoints files(checkpoint_folder(run), 1);
  if (which == WhichCheckpoint::Best) {
    return {.path = files.best(), .file = read_checkpoint_file(files.best())};
  }
  auto found = files.newest([&warnings](const std::string& why) { warnings.push_back(why); });
  require(found.has_value(),
          warnings.empty() ? run.string() + " holds no checkpoint" : warnings.back());
  return *found;
}

}  // namespace

std::filesystem::path config_file(const std::filesystem::path& run) {
  return run / "config.toml";
}

std::filesystem::path metrics_file(const std::filesystem::path& run) {
  return run / "metrics.jsonl";
}

std::filesystem::path checkpoint_folder(const std::filesystem::path& run) {
  return run / "checkpoints";
}

void require_run(const std::filesystem::path& run) {
  require<UsageError>(std::filesystem::is_directory(run), run.string(),
                      " is no run folder: there is no such folder");
  for (const auto& path : {config_file(run), checkpoint_folder(run)}) {
    require<UsageError>(std::filesystem::exists(path), run.string(),
                        " holds no run: ", path.string(), " is missing");
  }
}

void remove_leftovers(const std::filesystem::path& run) {
  std::error_code code;
  for (const auto& folder : {run, checkpoint_folder(run)}) {
    std::vector<std::filesystem::path> leftovers;
    for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.') && name.find(".tmp.") != std::string::npos) {
        leftovers.push_back(entry.path());
      }
    }
    for (const auto& path : leftovers) std::filesystem::remove(path, code);
  }
}

LoadedRun load_run(const std::filesystem::path& run, torch::Device device, WhichCheckpoint which,
                   const std::vector<std::string>& overrides) {
  require_run(run);
  auto experiment = read_experiment(config_file(run), overrides);
  auto task = experiment.make_task(device);
  std::vector<std::string> warnings;
  const auto checkpoint = checkpoint_of(run, which, warnings);
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, tensor] : checkpoint.file.tensors) {
    if (!name.starts_with(kOptimiserPrefix)) weights[name] = tensor;
  }
  restore_tensors(model_tensors(task->model()), weights, checkpoint.path.string());
  return {.experiment = std::move(experiment),
          .task = std::move(task),
          .warnings = std::move(warnings)};
}

}  // namespace deq
