#include "lab/report/html_report.h"

#include <nlohmann/json.hpp>

#include "core/require.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/json_lines.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/trained/load_run.h"
#include "deq/version.h"
#include "lab/report/assets.h"
#include "lab/report/environment.h"
#include "lab/report/extras.h"
#include "lab/report/gamma_label.h"
#include "lab/report/run_data.h"
#include "lab/report/synthetic_figures.h"
#include "lab/report/warnings.h"

namespace deq::lab {
namespace {

using nlohmann::json;

json run_json(const Environment& environment) {
  json result = json::object();
  for (const auto& [name, value] : environment) result[name] = value;
  return result;
}

json run_data(const std::filesystem::path& folder) {
  // Curves can be drawn without checkpoints.
  if (!std::filesystem::exists(config_file(folder))) require_run(folder);
  const auto experiment = read_experiment(config_file(folder));
  const auto lines = read_json_lines(metrics_file(folder));
  const auto last = folder.filename().empty() ? folder.parent_path() : folder;
  json run{{"name", last.filename().string()},
           {"folder", folder.string()},
           {"gamma", describe_gamma(experiment.recipe.jacobian)},
           {"config", read_file(config_file(folder))},
           {"environment", run_json(read_environment(folder))},
           {"summary", last_validation(lines)},
           {"metrics",
            {{"train", metric_columns(lines, "train")}, {"valid", metric_columns(lines, "valid")}}},
           {"warnings", json::array()}};
  const std::vector<Metrics> all = metrics_lines(folder);
  for (const auto& warning : warnings_about(all, experiment.recipe)) {
    run["warnings"].push_back(warning);
  }
  // Only its figures need the model: reading the images of another run could take minutes.
  if (experiment.name == "synthetic") {
    const auto loaded = load_run(folder);
    for (const auto& warning : loaded.warnings) run["warnings"].push_back(warning);
    add_synthetic_figures(dynamic_cast<const SyntheticTask&>(*loaded.task), run);
  }
  return run;
}

/// The template with its placeholders, given in their order, replaced.
std::string fill(std::string_view page,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> parts) {
  std::string result;
  for (const auto& [placeholder, content] : parts) {
    const auto at = page.find(placeholder);
    require(at != std::string_view::npos, "the report template lacks {}", placeholder);
    result.append(page.substr(0, at)).append(content);
    page.remove_prefix(at + placeholder.size());
  }
  return result.append(page);
}

}  // namespace

std::string render_report(const std::vector<std::filesystem::path>& runs, const std::string& title,
                          const ReportExtras& extras) {
  require(!runs.empty(), "a report needs at least one run");
  require(extras.labels.empty() || extras.labels.size() == runs.size(),
          "a report on {} runs has {} labels; give one for each, or none", runs.size(),
          extras.labels.size());
  json data{{"title", title},
            {"deq_version", version()},
            {"generated", utc_now()},
            {"runs", json::array()},
            {"extras", extras_data(extras)},
            {"environment", run_json(this_environment())}};
  for (const auto& folder : runs) {
    auto run = run_data(folder);
    if (!extras.labels.empty()) run["label"] = extras.labels[data["runs"].size()];
    if (run.contains("surface")) data["figure4"] = slope_figure();
    data["runs"].push_back(std::move(run));
  }
  return fill(assets::report_html(), {{"@CSS@", assets::report_css()},
                                      {"@PLOTLY@", assets::plotly_js()},
                                      {"@DATA@", embeddable(data)},
                                      {"@JS@", assets::report_js()}});
}

}  // namespace deq::lab
