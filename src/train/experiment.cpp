#include "deq/train/experiment.h"

#include "deq/config/experiment.h"
#include "deq/train/synthetic.h"

namespace deq {

EquilibriumOptions evaluation_options(const Recipe& recipe) {
  return {.forward = recipe.solver.forward,
          .gradient = gradient_options(recipe.gradient, recipe.solver.adjoint)};
}

Experiment read_experiment(const std::filesystem::path& path,
                           const std::vector<std::string>& overrides) {
  experiment_of(path, overrides);  // refuses what is none of the experiments there are
  return experiment_from(load_synthetic(path, overrides));
}

}  // namespace deq
