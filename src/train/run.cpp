#include "deq/train/run.h"

#include "deq/core/error.h"

namespace deq {

std::filesystem::path config_file(const std::filesystem::path& run) {
  return run / "config.toml";
}

std::filesystem::path metrics_file(const std::filesystem::path& run) {
  return run / "metrics.jsonl";
}

std::filesystem::path final_checkpoint(const std::filesystem::path& run) {
  return run / "checkpoints" / "final.safetensors";
}

SyntheticExperiment load_run(const std::filesystem::path& run, torch::Device device) {
  require<UsageError>(std::filesystem::is_directory(run), run.string(),
                      " is no run folder: there is no such folder");
  for (const auto& file : {config_file(run), final_checkpoint(run)}) {
    require<UsageError>(std::filesystem::is_regular_file(file), run.string(),
                        " holds no finished run: ", file.string(), " is missing");
  }
  SyntheticExperiment experiment(load_synthetic(config_file(run)), device);
  try {
    experiment.restore(read_safetensors(final_checkpoint(run)));
  } catch (const Error& error) {
    throw Error(final_checkpoint(run).string() + ": " + error.what());
  }
  return experiment;
}

}  // namespace deq
