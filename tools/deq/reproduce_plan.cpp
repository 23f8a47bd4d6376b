#include "reproduce_plan.h"

#include <algorithm>
#include <set>

#include "configs.h"
#include "core/require.h"
#include "data_folder.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/cifar.h"
#include "lab/config/writer.h"
#include "lab/data/text/corpus_text.h"
#include "lab/reproduce/results.h"

namespace deq::lab::cli {
namespace fs = std::filesystem;
namespace rp = reproduce;

namespace {

/// The path, and for CIFAR-10 whether it is folders of pictures or its own files.
std::vector<std::string> overrides_for(rp::Data data, const DataFolders& folders) {
  const auto& folder = folders.of(data);
  if (folder.empty()) return {};
  std::vector<std::string> overrides{"data.path=" + config::text_toml(folder)};
  if (data == rp::Data::Cifar10) {
    const bool pictures = fs::is_directory(fs::path(folder) / "train");
    overrides.emplace_back(pictures ? "data.format=folder" : "data.format=cifar10");
  }
  return overrides;
}

bool holds_pictures(const fs::path& folder) {
  const auto has = [&folder](const char* split) { return fs::is_directory(folder / split); };
  return has("train") && (has("test") || has("val") || has("valid"));
}

/// CIFAR-10 may be there in either form.
std::string fault_of_cifar10(const std::string& folder) {
  if (holds_cifar10(folder) || holds_pictures(folder)) return "";
  if (holds_python_cifar10(folder)) return folder + kPythonCifar10IsNotRead;
  return folder +
         " holds neither CIFAR-10's own files (batches.meta.txt) nor folders of pictures "
         "(train/<class>/*.jpg and test/<class>/*.jpg)";
}

std::string fault_of_imagenet(const std::string& folder) {
  if (holds_pictures(folder)) return "";
  return folder + " does not hold folders of pictures (train/<class>/*.jpg and val/<class>/*.jpg)";
}

std::string fault_of_corpus(const std::string& folder) {
  for (const auto split : {CorpusSplit::Train, CorpusSplit::Valid}) {
    if (find_split(folder, split)) continue;
    return fmt::format("{} is no corpus: there is {}", folder, names_looked_for(split));
  }
  return "";
}

/// Of a folder that is there, but may hold something else.
std::string fault_of(rp::Data data, const std::string& folder) {
  switch (data) {
    case rp::Data::Cifar10:
      return fault_of_cifar10(folder);
    case rp::Data::Text:
      return fault_of_corpus(folder);
    case rp::Data::ImageNet:
      return fault_of_imagenet(folder);
    case rp::Data::None:
      break;
  }
  return "";
}

/// Before hours of training, everything that is missing is named at once.
void require_all_data(const std::vector<PlannedRun>& runs, const rp::Exhibit& exhibit,
                      const rp::Catalogue& catalogue) {
  std::set<std::string> seen;
  std::string faults;
  for (const auto& run : runs) {
    const auto data = catalogue.find(run.name)->data;
    const auto folder = data_folder(run.experiment);
    if (run.is_done() || data == rp::Data::None || !seen.insert(folder).second) continue;
    auto fault = fault_of_folder(folder);
    if (fault.empty()) fault = fault_of(data, folder);
    if (fault.empty()) continue;
    if (!faults.empty()) faults += ", and ";
    faults += fmt::format("{} (name the folder with --{} DIR)", fault, name(data));
  }
  require<UsageError>(faults.empty(), "{} needs data that is not there: {}", exhibit.name, faults);
}

PlannedRun plan_run(const rp::RunSource& source, const rp::Exhibit& exhibit,
                    const ReproduceArguments& arguments) {
  PlannedRun run{.name = source.name,
                 .folder = fs::path(arguments.out) / arguments.scale / "runs" / source.name,
                 .data_overrides = overrides_for(source.data, arguments.data)};
  auto overrides = source.overrides;
  overrides.insert(overrides.end(), run.data_overrides.begin(), run.data_overrides.end());
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  run.experiment = read_experiment(source.config, overrides);
  run.need = rp::need_of(run.folder, run.experiment);
  if (run.need == rp::Need::Nothing) run.budgets = missing_budgets(exhibit, run);
  return run;
}

}  // namespace

const std::string& DataFolders::of(rp::Data data) const {
  static const std::string kNowhere;
  switch (data) {
    case rp::Data::Cifar10:
      return cifar10;
    case rp::Data::Text:
      return text;
    case rp::Data::ImageNet:
      return imagenet;
    case rp::Data::None:
      break;
  }
  return kNowhere;
}

fs::path recipes_folder(const ReproduceArguments& arguments) {
  if (!arguments.recipes.empty()) {
    require<UsageError>(fs::is_directory(arguments.recipes),
                        "--recipes {}: there is no such folder", arguments.recipes);
    return arguments.recipes;
  }
  const auto found = find_in_configs("reproduce");
  require<UsageError>(found.has_value(),
                      "there is no folder configs/reproduce, neither here nor above the program: "
                      "name it with --recipes DIR");
  return *found;
}

std::vector<PlannedRun> plan_runs(const rp::Exhibit& exhibit, const rp::Catalogue& catalogue,
                                  const ReproduceArguments& arguments) {
  std::vector<PlannedRun> runs;
  for (const auto& member : exhibit.members) {
    if (std::ranges::find(runs, member.run, &PlannedRun::name) != runs.end()) continue;
    runs.push_back(plan_run(*catalogue.find(member.run), exhibit, arguments));
  }
  require_all_data(runs, exhibit, catalogue);
  return runs;
}

std::vector<int64_t> missing_budgets(const rp::Exhibit& exhibit, const PlannedRun& run) {
  const auto results = rp::read_results(run.folder);
  if (!results.summary.failure.empty()) return {};  // there is no model worth measuring
  auto budgets = rp::needed_budgets(exhibit, run.name, results);
  std::erase_if(budgets, [&results](int64_t budget) {
    return results.summary.evaluation(budget) != nullptr;
  });
  return budgets;
}

}  // namespace deq::lab::cli
