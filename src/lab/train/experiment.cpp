#include "deq/lab/train/experiment.h"

#include <algorithm>

#include "deq/lab/settings/files.h"
#include "deq/lab/train/language.h"
#include "deq/lab/train/reasoning.h"
#include "deq/lab/train/segmentation.h"
#include "deq/lab/train/synthetic.h"
#include "deq/lab/train/vision.h"

namespace deq::lab {

EquilibriumOptions evaluation_options(const Recipe& recipe) {
  return {.forward = recipe.solver.forward,
          .gradient = gradient_options(recipe.gradient, recipe.solver.adjoint),
          .one_more_step = recipe.solver.one_more_step,
          .float32_evals = recipe.solver.float32_evals,
          .replay = recipe.solver.replay};
}

EquilibriumOptions within_budget(EquilibriumOptions options, int64_t budget) {
  options.forward = with_max_evals(options.forward, budget);
  if (auto* unrolled = std::get_if<Unrolled>(&options.gradient)) {
    *unrolled = unrolled_for(*unrolled, budget);
  }
  return options;
}

Unrolled unrolled_for(Unrolled how, int64_t steps) {
  how.steps = steps;
  how.backpropagated = std::min(how.backpropagated, steps);
  return how;
}

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
