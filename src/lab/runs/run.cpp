#include "deq/lab/runs/run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/version.h"

namespace deq::lab {
namespace {

constexpr const char *kClassesKey = "classes", *kSampleFormKey = "sample_form";

Checkpoints::Found checkpoint_of(const std::filesystem::path& run, WhichCheckpoint which,
                                 std::vector<std::string>& warnings) {
  const Checkpoints files(checkpoint_folder(run), 1);
  if (which == WhichCheckpoint::Best) {
    return {.path = files.best(), .file = read_checkpoint_file(files.best())};
  }
  auto found = files.newest([&warnings](const std::string& why) { warnings.push_back(why); });
  require(found.has_value(), "{}",
          warnings.empty() ? run.string() + " holds no checkpoint" : warnings.back());
  return *found;
}

}  // namespace

bool is_of_model(std::string_view name) {
  return !name.starts_with(kOptimiserPrefix) && !name.starts_with(kCarriedPrefix) &&
         !name.starts_with(kTrainedPrefix);
}

std::map<std::string, std::string> checkpoint_metadata(const std::string& config,
                                                       const std::vector<std::string>& classes,
                                                       const std::string& sample_form) {
  std::map<std::string, std::string> metadata{{"deq_version", version()}, {"config", config}};
  // Names of folders need not be UTF-8.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  if (!classes.empty()) {
    metadata[kClassesKey] = nlohmann::json(classes).dump(-1, ' ', false, kReplace);
  }
  if (!sample_form.empty()) metadata[kSampleFormKey] = sample_form;
  return metadata;
}

std::string sample_form_in(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kSampleFormKey);
  return found == metadata.end() ? "" : found->second;
}

void require_sample_form(const std::string& checkpoint, const std::string& data,
                         const std::string& what) {
  require(checkpoint.empty() || data.empty() || checkpoint == data,
          "{} is of a model for other data: its samples are \"{}\", those of the data \"{}\"", what,
          checkpoint, data);
}

std::vector<std::string> classes_in(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kClassesKey);
  if (found == metadata.end()) return {};
  // What is no list of names is none: a file from elsewhere may use the key as it likes.
  const auto list = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> classes;
  for (const auto& item : list.is_array() ? list : nlohmann::json::array()) {
    if (!item.is_string()) return {};
    classes.push_back(item.get<std::string>());
  }
  return classes;
}

void require_classes(const std::vector<std::string>& checkpoint,
                     const std::vector<std::string>& data, const std::string& what) {
  if (checkpoint.empty() || data.empty() || checkpoint == data) return;
  const auto [ours, theirs] =
      std::mismatch(checkpoint.begin(), checkpoint.end(), data.begin(), data.end());
  const auto shown = [](auto at, auto end) { return at == end ? "missing" : '"' + *at + '"'; };
  throw Error(
      fmt::format("{} is of a model for other data: of its {} classes, number {} is {}; of the "
                  "data's {}, it is {}",
                  what, checkpoint.size(), ours - checkpoint.begin(), shown(ours, checkpoint.end()),
                  data.size(), shown(theirs, data.end())));
}

RunCheckpoint read_run_checkpoint(const std::filesystem::path& run, WhichCheckpoint which) {
  RunCheckpoint result;
  auto found = checkpoint_of(run, which, result.warnings);
  result.path = std::move(found.path);
  result.classes = classes_in(found.file.metadata);
  result.sample_form = sample_form_in(found.file.metadata);
  for (auto& [name, tensor] : found.file.tensors) {
    if (!is_of_model(name)) continue;
    result.weights[name] = std::move(tensor);
  }
  return result;
}

std::filesystem::path config_file(const std::filesystem::path& run) {
  return run / "config.toml";
}

std::filesystem::path metrics_file(const std::filesystem::path& run) {
  return run / "metrics.jsonl";
}

std::vector<Metrics> metrics_lines(const std::filesystem::path& run) {
  std::vector<Metrics> lines;
  if (!std::filesystem::exists(metrics_file(run))) return lines;
  for (const auto& line : read_json_lines(metrics_file(run))) {
    lines.emplace_back(line.begin(), line.end());
  }
  return lines;
}

std::filesystem::path checkpoint_folder(const std::filesystem::path& run) {
  return run / "checkpoints";
}

void require_run(const std::filesystem::path& run) {
  require<UsageError>(std::filesystem::is_directory(run),
                      "{} is no run folder: there is no such folder", run.string());
  for (const auto& path : {config_file(run), checkpoint_folder(run)}) {
    require<UsageError>(std::filesystem::exists(path), "{} holds no run: {} is missing",
                        run.string(), path.string());
  }
}

void remove_leftovers(const std::filesystem::path& run) {
  for (const auto& folder : {run, checkpoint_folder(run)}) remove_unfinished_files(folder);
}

}  // namespace deq::lab
