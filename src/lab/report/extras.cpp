#include "lab/report/extras.h"

#include "core/require.h"

namespace deq::lab {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"lines", "points", "bars"};

json extra_json(const ReportFigure& figure) {
  json series = json::array();
  for (const auto& one : figure.series) {
    require(one.x.size() == one.y.size() || figure.kind == ReportFigure::Kind::Bars,
            "the series {} of the figure \"{}\" has {} x and {} y", one.label, figure.title,
            one.x.size(), one.y.size());
    series.push_back({{"label", one.label}, {"x", one.x}, {"y", one.y}});
  }
  return {{"title", figure.title},     {"caption", figure.caption},
          {"x_label", figure.x_label}, {"kind", kKinds[static_cast<int>(figure.kind)]},
          {"log", figure.log},         {"series", series}};
}

json extra_json(const ReportTable& table) {
  json rows = json::array();
  for (const auto& row : table.rows) {
    require(row.cells.size() == table.columns.size(),
            "the row {} of the table \"{}\" has {} cells for {} columns", row.label, table.title,
            row.cells.size(), table.columns.size());
    rows.push_back({{"label", row.label}, {"cells", row.cells}});
  }
  return {{"title", table.title},
          {"caption", table.caption},
          {"columns", table.columns},
          {"rows", rows}};
}

}  // namespace

json extras_data(const ReportExtras& extras) {
  if (extras.about.empty() && extras.tables.empty() && extras.figures.empty()) return nullptr;
  json data{{"about", extras.about}, {"tables", json::array()}, {"figures", json::array()}};
  for (const auto& table : extras.tables) data["tables"].push_back(extra_json(table));
  for (const auto& figure : extras.figures) data["figures"].push_back(extra_json(figure));
  return data;
}

}  // namespace deq::lab
