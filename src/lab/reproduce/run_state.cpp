#include "lab/reproduce/run_state.h"

#include <algorithm>
#include <sstream>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "lab/reproduce/run_summary.h"

namespace deq::lab::reproduce {
namespace {

bool says_where_data_lies(const std::string& key) {
  return key == "data.path" || key == "data.format";
}

std::string value_in(const std::map<std::string, std::string>& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "nothing" : found->second;
}

void require_same(const std::filesystem::path& folder, const std::string& held,
                  const std::string& wanted) {
  const auto old = flat_config(held), now = flat_config(wanted);
  auto all = old;
  all.insert(now.begin(), now.end());
  for (const auto& [key, ignored] : all) {
    const auto before = value_in(old, key), after = value_in(now, key);
    require<UsageError>(says_where_data_lies(key) || before == after,
                        "{} holds a run with {} = {}, where {} is wanted: name another folder with "
                        "--out, or remove this one",
                        folder.string(), key, before, after);
  }
}

/// A run of a fixed number of steps has ended where its last checkpoint is there, whoever trained
/// it.
bool has_ended(const std::filesystem::path& folder, const Recipe& recipe) {
  const Checkpoints checkpoints(checkpoint_folder(folder), 1);
  return recipe.train.steps && std::filesystem::exists(checkpoints.file_of(*recipe.train.steps));
}

}  // namespace

std::map<std::string, std::string> flat_config(const std::string& toml) {
  std::map<std::string, std::string> values;
  std::istringstream lines(toml);
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (line.starts_with('[')) {
      table = line.substr(1, line.find(']') - 1) + ".";
    } else if (equals != std::string::npos) {
      values[table + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return values;
}

Need need_of(const std::filesystem::path& folder, const Experiment& wanted) {
  if (!std::filesystem::exists(config_file(folder))) {
    require_free_folder(folder);
    return Need::Train;
  }
  // Read anew, so that keys that are younger than the run have their defaults.
  require_same(folder, read_experiment(config_file(folder)).config, wanted.config);
  const bool done = read_summary(folder) || has_ended(folder, wanted.recipe);
  return done ? Need::Nothing : Need::Resume;
}

}  // namespace deq::lab::reproduce
