#include "deq/train/experiment.h"

#include "deq/config/experiment.h"
#include "deq/train/language.h"
#include "deq/train/segmentation.h"
#include "deq/train/synthetic.h"
#include "deq/train/vision.h"

namespace deq {

EquilibriumOptions evaluation_options(const Recipe& recipe) {
  return {.forward = recipe.solver.forward,
          .gradient = gradient_options(recipe.gradient, recipe.solver.adjoint),
          .float32_evals = recipe.solver.float32_evals};
}

Experiment read_experiment(const std::filesystem::path& path,
                           const std::vector<std::string>& overrides) {
  const auto experiment = experiment_of(path, overrides);
  if (experiment == "vision") return experiment_from(load_vision(path, overrides));
  if (experiment == "language") return experiment_from(load_language(path, overrides));
  if (experiment == "segmentation") return experiment_from(load_segmentation(path, overrides));
  return experiment_from(load_synthetic(path, overrides));
}

}  // namespace deq
