#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/settings/files.h"

namespace deq::lab {

/// The configuration of a run of one experiment. Throws UsageError where the folder holds no run,
/// or one of another experiment; `does` is what only this one can: "generates text".
template <class Config>
Config run_config_of(const std::filesystem::path& run, const std::vector<std::string>& overrides,
                     std::string_view wanted, std::string_view does) {
  require_run(run);
  const auto experiment = experiment_of(config_file(run), overrides);
  require<UsageError>(experiment == wanted,
                      "{} is a run of the experiment \"{}\", must be \"{}\": only that {}",
                      run.string(), experiment, wanted, does);
  return load_config<Config>(config_file(run), overrides);
}

}  // namespace deq::lab
