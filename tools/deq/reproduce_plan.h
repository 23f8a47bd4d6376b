#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "deq/lab/tasks/experiment.h"
#include "lab/reproduce/exhibit.h"
#include "lab/reproduce/run_state.h"

namespace deq::lab::cli {

/// Where the user's data lies; empty: where the configurations say.
struct DataFolders {
  std::string cifar10, text, imagenet;

  const std::string& of(reproduce::Data data) const;
};

struct ReproduceArguments {
  std::string name, scale = "small", out = "runs/reproduce", device = "cpu", recipes;
  DataFolders data;
  std::vector<std::string> overrides;
  bool scale_is_given = false, list = false, dry_run = false, json = false;
};

/// A run that an exhibit needs, and what is left to do for it.
struct PlannedRun {
  std::string name{};
  std::filesystem::path folder{};
  Experiment experiment{};
  std::vector<std::string> data_overrides{};  ///< where its data lies, as --set has it
  reproduce::Need need = reproduce::Need::Train;
  std::vector<int64_t> budgets{};  ///< what a finished run has yet to be evaluated with

  bool is_done() const { return need == reproduce::Need::Nothing && budgets.empty(); }
};

/// --recipes, or configs/reproduce here, or beside one of the folders above the program.
std::filesystem::path recipes_folder(const ReproduceArguments& arguments);

/// Everything that can be refused is refused here: configurations, folders that hold other runs,
/// data that is not there.
std::vector<PlannedRun> plan_runs(const reproduce::Exhibit& exhibit,
                                  const reproduce::Catalogue& catalogue,
                                  const ReproduceArguments& arguments);

/// Budgets that the run's summary lacks.
std::vector<int64_t> missing_budgets(const reproduce::Exhibit& exhibit, const PlannedRun& run);

}  // namespace deq::lab::cli
