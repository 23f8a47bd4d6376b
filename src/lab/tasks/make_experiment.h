#pragma once

#include <memory>
#include <string>

#include "deq/lab/settings/files.h"
#include "deq/lab/tasks/experiment.h"
#include "lab/tasks/recipe_checks.h"
#include "lab/tasks/starts.h"

namespace deq::lab {

/// The experiment `name`, whose task is made of its configuration. Throws UsageError where parts of
/// that do not go together.
template <class ItsTask, class Config>
Experiment make_experiment(const std::string& name, const Config& config) {
  require_sensible(config);
  require_sensible_starts(config);
  return {.name = name,
          .recipe = config,
          .config = to_toml(config),
          .make_task = [config](torch::Device device) {
            return std::make_shared<ItsTask>(config, device);
          }};
}

}  // namespace deq::lab
