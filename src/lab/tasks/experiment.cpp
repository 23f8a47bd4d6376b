#include "deq/lab/tasks/experiment.h"

#include "deq/lab/settings/files.h"
#include "deq/lab/tasks/language.h"
#include "deq/lab/tasks/reasoning.h"
#include "deq/lab/tasks/segmentation.h"
#include "deq/lab/tasks/synthetic.h"
#include "deq/lab/tasks/vision.h"

namespace deq::lab {

Experiment read_experiment(const std::filesystem::path& path,
                           const std::vector<std::string>& overrides) {
  const auto experiment = experiment_of(path, overrides);
  if (experiment == "vision") return experiment_from(load_config<VisionConfig>(path, overrides));
  if (experiment == "language")
    return experiment_from(load_config<LanguageConfig>(path, overrides));
  if (experiment == "segmentation")
    return experiment_from(load_config<SegmentationConfig>(path, overrides));
  if (experiment == "reasoning")
    return experiment_from(load_config<ReasoningConfig>(path, overrides));
  return experiment_from(load_config<SyntheticConfig>(path, overrides));
}

}  // namespace deq::lab
