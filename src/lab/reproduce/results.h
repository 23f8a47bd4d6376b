#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lab/report/html_report.h"
#include "lab/reproduce/exhibit.h"
#include "lab/reproduce/run_summary.h"

// The numbers of an exhibit. A metric's name may be
//   accuracy, rho, …           of the last validation, or of the evaluation where a member is
//                              stopped early
//   train.train_seconds, …     of the last line of training; a throughput is the median
//   eval.samples_per_s, …      of an evaluation that was measured on its own
//   accuracy@3, …              of the evaluation with that budget
//   parameters                 trained ones
//   relative.<any of these>    divided by the baseline's

namespace deq::lab::reproduce {

/// A run's metrics.jsonl and summary.
struct RunResults {
  std::vector<Metrics> train{}, valid{};
  int64_t own_budget = 0;  ///< evaluations that its configuration allows
  RunSummary summary{};

  /// Whether its model has an equilibrium to stop early.
  bool solves() const;

  /// NaN where it was not measured.
  double value(const std::string& metric, const Member& member) const;
};

/// By the run's name.
using Results = std::map<std::string, RunResults>;

/// Reads a run whose training has ended.
RunResults read_results(const std::filesystem::path& run);

/// The budgets that a run must be evaluated with for an exhibit; its own among them where the
/// exhibit shows what an evaluation costs.
std::vector<int64_t> needed_budgets(const Exhibit& exhibit, const std::string& run,
                                    const RunResults& results);

std::vector<ReportTable> tables_of(const Exhibit& exhibit, const Results& results);
std::vector<ReportFigure> figures_of(const Exhibit& exhibit, const Results& results);

/// Metric → value for each member, in their order: what --json prints. Begins with name and label.
std::vector<Metrics> rows_of(const Exhibit& exhibit, const Results& results);

/// A table for a terminal, and as Markdown.
std::string plain_text(const ReportTable& table);
std::string markdown(const ReportTable& table);

}  // namespace deq::lab::reproduce
