#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/reproduce/catalogue.h"
#include "lab/reproduce/scale.h"

namespace deq::lab::reproduce {

/// A line of an exhibit: a run of the catalogue under a label, perhaps stopped early.
struct Member {
  std::string name{};
  std::string run{};  ///< of the catalogue
  std::string label{};
  Scale from = Scale::Small;         ///< the smallest scale that has it
  std::optional<int64_t> stopped{};  ///< evaluated with this many evaluations, not its own
  std::string stopped_like{};        ///< the run of the catalogue whose number that is
};

enum class PlotKind { Lines, Points, Bars };

/// Where a metric's name may stand, `results.h` says what names there are.
struct Plot {
  std::string title{}, caption{};
  std::string x = "step";  ///< a metric; "budget" for a sweep; without meaning for bars
  std::string y{};
  std::string split = "train";  ///< whose lines of metrics.jsonl are drawn
  PlotKind kind = PlotKind::Lines;
  bool log = false;                 ///< the axis of y
  std::vector<std::string> only{};  ///< of these members; empty: all
};

struct ResultTable {
  std::string title{}, caption{};
  std::string baseline{};  ///< the member that columns "relative.…" are divided by
  std::vector<std::string> only{};
  std::vector<std::pair<std::string, std::string>> columns{};  ///< metric and heading
};

/// A row of the paper's that is not reproduced.
struct Absentee {
  std::string label{}, why{};
};

/// A figure or table of the paper: what runs it needs, what is drawn and listed of them.
struct Exhibit {
  std::string name{}, title{};
  std::string about{};             ///< what the paper reports, printed after these words
  std::vector<int64_t> budgets{};  ///< every equilibrium model is also evaluated with these
  std::vector<Member> members{};
  std::vector<Plot> plots{};
  std::vector<ResultTable> tables{};
  std::vector<Absentee> not_here{};  ///< at any scale; at_scale() adds what its scale lacks
};

/// The names of the files in the folder that describe exhibits, sorted as a reader expects (fig3
/// before fig10).
std::vector<std::string> exhibit_names(const std::filesystem::path& folder);

/// Throws UsageError for a name that the folder lacks, ConfigError for a file that cannot be used.
Exhibit read_exhibit(const std::filesystem::path& folder, const std::string& name);

/// The exhibit with the members that this scale has, each `stopped_like` as a number. `overrides`
/// are laid over every run. Throws UsageError where there are no members, and ConfigError where the
/// catalogue lacks a run.
Exhibit at_scale(Exhibit exhibit, const Catalogue& catalogue,
                 const std::vector<std::string>& overrides = {});

/// "label – why" of each row that is not here.
std::vector<std::string> absences(const Exhibit& exhibit);

/// What the exhibit calls a run of the catalogue.
std::string label_of(const Exhibit& exhibit, const std::string& run);

/// The members that a plot or table is of.
std::vector<Member> shown(const Exhibit& exhibit, const std::vector<std::string>& only);

}  // namespace deq::lab::reproduce
