#include "lab/report/run_data.h"

#include <set>

#include "core/require.h"

namespace deq::lab {
namespace {

using nlohmann::json;

constexpr size_t kMostHoles = 1'000'000;

json metric_json(const MetricValue& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

std::string split_of(const MetricLine& line) {
  const auto found = line.find("split");
  const auto* text = found == line.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

/// Most lines of a split have most of its names. Where every line has others, a table of them all
/// would fill the memory with nothing.
void require_few_holes(const std::vector<MetricLine>& lines, const std::string& split) {
  std::set<std::string> names;
  size_t count = 0, values = 0;
  for (const auto& line : lines) {
    if (split_of(line) != split) continue;
    for (const auto& [name, value] : line) names.insert(name);
    values += line.size();
    ++count;
  }
  require(names.size() * count - values <= kMostHoles + 100 * values,
          "the {} lines of the split \"{}\" have {} different names: these are no metrics of a run",
          count, split, names.size());
}

}  // namespace

json metric_columns(const std::vector<MetricLine>& lines, const std::string& split) {
  require_few_holes(lines, split);
  json result = json::object();
  size_t count = 0;
  for (const auto& line : lines) {
    if (split_of(line) != split) continue;
    for (const auto& [name, value] : line) {
      if (name == "split") continue;
      auto& column = result[name];
      if (column.is_null()) column = json::array();
      while (column.size() < count) column.push_back(nullptr);
      column.push_back(metric_json(value));
    }
    ++count;
  }
  for (auto& column : result) {
    while (column.size() < count) column.push_back(nullptr);
  }
  return result;
}

json last_validation(const std::vector<MetricLine>& lines) {
  json result = json::object();
  for (const auto& line : lines) {
    if (split_of(line) != "valid") continue;
    for (const auto& [name, value] : line) {
      const bool number =
          std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
      if (number) result[name] = metric_json(value);
    }
  }
  return result;
}

std::string embeddable(const json& data) {
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  // Only within its strings is there a "<": of a tag that would end the script, or of a comment.
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

}  // namespace deq::lab
