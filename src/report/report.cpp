#include "deq/report/report.h"

#include <nlohmann/json.hpp>

#include "deq/core/error.h"
#include "deq/io/atomic_file.h"
#include "deq/io/json_lines.h"
#include "deq/report/environment.h"
#include "deq/train/run.h"
#include "deq/version.h"
#include "report/assets.h"
#include "report/extras.h"
#include "report/gamma_label.h"
#include "report/synthetic_figures.h"
#include "report/utc_time.h"
#include "report/warnings.h"

namespace deq {
namespace {

using nlohmann::json;
using Line = std::map<std::string, MetricValue>;

json as_json(const MetricValue& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

std::string split_of(const Line& line) {
  const auto found = line.find("split");
  const auto* text = found == line.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

/// One array a name, null where a line lacks it.
json columns(const std::vector<Line>& lines, const std::string& split) {
  json result = json::object();
  size_t count = 0;
  for (const auto& line : lines) {
    if (split_of(line) != split) continue;
    for (const auto& [name, value] : line) {
      if (name == "split") continue;
      auto& column = result[name];
      if (column.is_null()) column = json::array();
      while (column.size() < count) column.push_back(nullptr);
      column.push_back(as_json(value));
    }
    ++count;
  }
  for (auto& column : result) {
    while (column.size() < count) column.push_back(nullptr);
  }
  return result;
}

json summary(const std::vector<Line>& lines) {
  json result = json::object();
  for (const auto& line : lines) {
    if (split_of(line) != "valid") continue;
    for (const auto& [name, value] : line) {
      const bool number =
          std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
      if (number) result[name] = as_json(value);
    }
  }
  return result;
}

json as_json(const Environment& environment) {
  json result = json::object();
  for (const auto& [name, value] : environment) result[name] = value;
  return result;
}

json run_data(const std::filesystem::path& folder) {
  // Curves can be drawn where the checkpoints were left behind.
  if (!std::filesystem::exists(config_file(folder))) require_run(folder);
  const auto experiment = read_experiment(config_file(folder));
  const auto lines = read_json_lines(metrics_file(folder));
  const auto last = folder.filename().empty() ? folder.parent_path() : folder;
  json run{{"name", last.filename().string()},
           {"folder", folder.string()},
           {"gamma", describe_gamma(experiment.recipe.jacobian)},
           {"config", read_file(config_file(folder))},
           {"environment", as_json(recorded_environment(folder))},
           {"summary", summary(lines)},
           {"metrics", {{"train", columns(lines, "train")}, {"valid", columns(lines, "valid")}}},
           {"warnings", json::array()}};
  for (const auto& warning : warnings_about(lines)) run["warnings"].push_back(warning);
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
    require(at != std::string_view::npos, "the report template lacks ", placeholder);
    result.append(page.substr(0, at)).append(content);
    page.remove_prefix(at + placeholder.size());
  }
  return result.append(page);
}

/// JSON that can stand inside a <script> element.
std::string embeddable(const json& data) {
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) {
    text.replace(at, 2, "<\\/");
  }
  return text;
}

}  // namespace

std::string render_report(const std::vector<std::filesystem::path>& runs, const std::string& title,
                          const ReportExtras& extras) {
  require(!runs.empty(), "a report needs at least one run");
  require(extras.labels.empty() || extras.labels.size() == runs.size(), "a report on ", runs.size(),
          " runs has ", extras.labels.size(), " labels; give one for each, or none");
  json data{{"title", title},
            {"deq_version", version()},
            {"generated", utc_now()},
            {"runs", json::array()},
            {"extras", extras_data(extras)},
            {"environment", as_json(this_environment())}};
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

}  // namespace deq
