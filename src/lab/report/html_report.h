#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace deq::lab {

/// Lines, points or bars, to be drawn on a report's first page.
struct ReportFigure {
  enum class Kind { Lines, Points, Bars };
  struct Series {
    std::string label{};           ///< the run's, where it is of one: it then has that run's colour
    std::vector<double> x{}, y{};  ///< of the same length; of bars, y is one number and x is empty
  };

  std::string title{}, caption{}, x_label{};
  Kind kind = Kind::Lines;
  bool log = false;  ///< the axis of y
  std::vector<Series> series{};
};

struct ReportTable {
  struct Row {
    std::string label{};
    std::vector<std::string> cells{};  ///< one per column
  };

  std::string title{}, caption{};
  std::vector<std::string> columns{};
  std::vector<Row> rows{};
};

/// What a report says in addition to its runs.
struct ReportExtras {
  std::string about{};                ///< a paragraph under the title
  std::vector<std::string> labels{};  ///< of the runs, in their order; empty: made from γ
  std::vector<ReportTable> tables{};
  std::vector<ReportFigure> figures{};
};

/// One self-contained HTML page on these run folders, side by side. Reads each run's config.toml,
/// metrics.jsonl and, of the synthetic experiment, final checkpoint; throws UsageError where one is
/// no run.
std::string render_report(const std::vector<std::filesystem::path>& runs, const std::string& title,
                          const ReportExtras& extras = {});

}  // namespace deq::lab
