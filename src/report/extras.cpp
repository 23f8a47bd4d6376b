#include "report/extras.h"

#include "deq/core/error.h"

namespace deq {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"lines", "points", "bars"};

json as_json(const ReportFigure& figure) {
  json series = json::array();
  for (const auto& one : figure.series) {
    require(one.x.size() == one.y.size() || figure.kind == ReportFigure::Kind::Bars, "the series ",
            one.label, " of the figure \"", figure.title, "\" has ", one.x.size(), " x and ",
            one.y.size(), " y");
    series.push_back({{"label", one.label}, {"x", one.x}, {"y", one.y}});
  }
  return {{"title", figure.title},     {"caption", figure.caption},
          {"x_label", figure.x_label}, {"kind", kKinds[static_cast<int>(figure.kind)]},
          {"log", figure.log},         {"series", series}};
}

json as_json(const ReportTable& table) {
  json rows = json::array();
  for (const auto& row : table.rows) {
    require(row.cells.size() == table.columns.size(), "the row ", row.label, " of the table \"",
            table.title, "\" has ", row.cells.size(), " cells for ", table.columns.size(),
            " columns");
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
  for (const auto& table : extras.tables) data["tables"].push_back(as_json(table));
  for (const auto& figure : extras.figures) data["figures"].push_back(as_json(figure));
  return data;
}

}  // namespace deq
