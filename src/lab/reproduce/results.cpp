#include "lab/reproduce/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/experiment.h"

namespace deq::lab::reproduce {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kOfTraining = "train.", kOfEvaluation = "eval.", kRelative = "relative.";

std::string without(std::string_view prefix, const std::string& name) {
  return name.substr(prefix.size());
}

double last_of_training(const std::vector<Metrics>& lines, const std::string& name) {
  std::vector<double> values;
  for (const auto& line : lines) {
    const double value = number(line, name);
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return kNone;
  if (!name.ends_with("_per_s")) return values.back();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A relative column is of the same kind as what it divides, and has no unit.
double shown_value(const std::string& metric, const Member& member, const Member* baseline,
                   const Results& results) {
  if (!metric.starts_with(kRelative)) return results.at(member.run).value(metric, member);
  if (baseline == nullptr) return kNone;
  const auto name = without(kRelative, metric);
  return results.at(member.run).value(name, member) /
         results.at(baseline->run).value(name, *baseline);
}

std::string cell(const std::string& metric, double value) {
  const auto plain = metric.substr(0, metric.find('@'));
  const auto is = [&plain](std::string_view end) { return plain.ends_with(end); };
  if (!std::isfinite(value)) return "–";
  if (metric.starts_with(kRelative)) return fmt::format("{:.2f}×", value);
  if (metric == "parameters") {
    return value < 1e4 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}M", value / 1e6);
  }
  if (is("accuracy") || is("top5") || is("perplexity")) return fmt::format("{:.1f}", value);
  if (is("residual")) return fmt::format("{:.1e}", value);
  if (is("_mib") || is("_per_s") || is("seconds")) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

const Member* find_member(const Exhibit& exhibit, const std::string& name) {
  const auto found = std::ranges::find(exhibit.members, name, &Member::name);
  return found == exhibit.members.end() ? nullptr : &*found;
}

/// The runs of a plot, each once: an early stop has no curve of its own.
std::vector<Member> drawn(const Exhibit& exhibit, const Plot& plot) {
  auto members = shown(exhibit, plot.only);
  if (plot.kind != PlotKind::Bars) {
    std::erase_if(members, [](const Member& member) { return member.stopped.has_value(); });
  }
  return members;
}

ReportFigure::Series curve(const std::vector<Metrics>& lines, const Plot& plot) {
  ReportFigure::Series series;
  for (const auto& line : lines) {
    const double x = number(line, plot.x), y = number(line, plot.y);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    series.x.push_back(x);
    series.y.push_back(y);
  }
  return series;
}

ReportFigure::Series series_of(const Member& member, const Plot& plot, const RunResults& run) {
  ReportFigure::Series series;
  if (plot.kind == PlotKind::Bars) {
    const double value = run.value(plot.y, member);
    if (std::isfinite(value)) series.y = {value};
  } else if (plot.x == "budget") {
    series = curve(run.summary.evaluations, plot);
  } else {
    series = curve(plot.split == "valid" ? run.valid : run.train, plot);
  }
  series.label = member.label;
  return series;
}

/// All metrics that an exhibit shows.
std::set<std::string> shown_metrics(const Exhibit& exhibit) {
  std::set<std::string> metrics;
  for (const auto& plot : exhibit.plots) metrics.insert(plot.y);
  for (const auto& table : exhibit.tables) {
    for (const auto& [metric, heading] : table.columns) {
      metrics.insert(metric.starts_with(kRelative) ? without(kRelative, metric) : metric);
    }
  }
  return metrics;
}

/// Under a table of all rows also those that the paper has besides.
std::string caption_of(const ResultTable& table, const Exhibit& exhibit) {
  const auto missing = absences(exhibit);
  if (!table.only.empty() || missing.empty()) return table.caption;
  const auto sentence = fmt::format("Not here: {}.", fmt::join(missing, "; "));
  return table.caption.empty() ? sentence : table.caption + " " + sentence;
}

}  // namespace

bool RunResults::solves() const {
  return !valid.empty() && std::isfinite(number(valid.back(), "nfe_forward"));
}

double RunResults::value(const std::string& metric, const Member& member) const {
  if (metric == "parameters") return static_cast<double>(summary.parameters);
  if (metric.starts_with(kOfTraining)) return last_of_training(train, without(kOfTraining, metric));
  if (const auto at = metric.find('@'); at != std::string::npos) {
    const auto* row = summary.evaluation(std::atoll(metric.c_str() + at + 1));
    return row == nullptr ? kNone : number(*row, metric.substr(0, at));
  }
  const bool measured = metric.starts_with(kOfEvaluation);
  if (measured || member.stopped) {
    const auto* row = summary.evaluation(member.stopped.value_or(own_budget));
    const auto name = measured ? without(kOfEvaluation, metric) : metric;
    return row == nullptr ? kNone : number(*row, name);
  }
  return valid.empty() ? kNone : number(valid.back(), metric);
}

RunResults read_results(const std::filesystem::path& run) {
  const auto summary = read_summary(run);
  RunResults results{
      .own_budget = max_evals(read_experiment(config_file(run)).recipe.solver.forward),
      .summary = summary ? *summary : new_summary(run, "")};
  for (const auto& line : read_json_lines(metrics_file(run))) {
    Metrics metrics(line.begin(), line.end());
    // Older runs count their validations too.
    if (line.contains("seconds") && !line.contains("train_seconds")) {
      metrics.emplace_back("train_seconds", number(metrics, "seconds"));
    }
    auto& lines = text(metrics, "split") == "valid" ? results.valid : results.train;
    lines.push_back(std::move(metrics));
  }
  return results;
}

std::vector<int64_t> needed_budgets(const Exhibit& exhibit, const std::string& run,
                                    const RunResults& results) {
  const auto metrics = shown_metrics(exhibit);
  const bool costs = std::ranges::any_of(
      metrics, [](const std::string& metric) { return metric.starts_with(kOfEvaluation); });
  std::set<int64_t> budgets;
  if (costs) budgets.insert(results.own_budget);
  if (results.solves()) {
    budgets.insert(exhibit.budgets.begin(), exhibit.budgets.end());
    for (const auto& member : exhibit.members) {
      if (member.run == run && member.stopped) budgets.insert(*member.stopped);
    }
  }
  return {budgets.begin(), budgets.end()};
}

std::vector<ReportTable> tables_of(const Exhibit& exhibit, const Results& results) {
  std::vector<ReportTable> tables;
  for (const auto& table : exhibit.tables) {
    ReportTable shown_table{.title = table.title, .caption = caption_of(table, exhibit)};
    for (const auto& [metric, heading] : table.columns) shown_table.columns.push_back(heading);
    const auto* baseline = find_member(exhibit, table.baseline);
    for (const auto& member : shown(exhibit, table.only)) {
      const bool failed = !results.at(member.run).summary.failure.empty();
      ReportTable::Row row{.label = member.label + (failed ? " (diverged)" : "")};
      for (const auto& [metric, heading] : table.columns) {
        row.cells.push_back(cell(metric, shown_value(metric, member, baseline, results)));
      }
      shown_table.rows.push_back(std::move(row));
    }
    if (!shown_table.rows.empty()) tables.push_back(std::move(shown_table));
  }
  return tables;
}

std::vector<ReportFigure> figures_of(const Exhibit& exhibit, const Results& results) {
  std::vector<ReportFigure> figures;
  for (const auto& plot : exhibit.plots) {
    ReportFigure figure{.title = plot.title,
                        .caption = plot.caption,
                        .x_label = plot.kind == PlotKind::Bars ? "" : plot.x,
                        .kind = static_cast<ReportFigure::Kind>(plot.kind),
                        .log = plot.log};
    for (const auto& member : drawn(exhibit, plot)) {
      auto series = series_of(member, plot, results.at(member.run));
      if (!series.y.empty()) figure.series.push_back(std::move(series));
    }
    if (!figure.series.empty()) figures.push_back(std::move(figure));
  }
  return figures;
}

std::vector<Metrics> rows_of(const Exhibit& exhibit, const Results& results) {
  std::vector<Metrics> rows;
  for (const auto& member : exhibit.members) {
    const auto& run = results.at(member.run);
    Metrics row{{"name", member.name}, {"label", member.label}, {"run", member.run}};
    if (!run.summary.failure.empty()) row.emplace_back("failure", run.summary.failure);
    for (const auto& metric : shown_metrics(exhibit)) {
      row.emplace_back(metric, run.value(metric, member));
    }
    for (const auto& table : exhibit.tables) {
      const auto* baseline = find_member(exhibit, table.baseline);
      for (const auto& [metric, heading] : table.columns) {
        if (!metric.starts_with(kRelative)) continue;
        row.emplace_back(metric, shown_value(metric, member, baseline, results));
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace deq::lab::reproduce
