#include <fmt/format.h>

#include <algorithm>

#include "lab/reproduce/results.h"

namespace deq::lab::reproduce {
namespace {

/// Characters that a terminal shows, of UTF-8.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::vector<std::string>> grid(const ReportTable& table) {
  std::vector<std::vector<std::string>> lines{{""}};
  lines[0].insert(lines[0].end(), table.columns.begin(), table.columns.end());
  for (const auto& row : table.rows) {
    lines.push_back({row.label});
    lines.back().insert(lines.back().end(), row.cells.begin(), row.cells.end());
  }
  return lines;
}

/// A bar would end the cell.
std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

}  // namespace

std::string plain_text(const ReportTable& table) {
  const auto lines = grid(table);
  std::string text = table.title + "\n";
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - width(line[i]), ' ');
      text += i == 0 ? "  " + line[i] + space : "  " + space + line[i];
    }
    text += "\n";
  }
  return text;
}

std::string markdown(const ReportTable& table) {
  const auto lines = grid(table);
  std::string text = "**" + table.title + "**\n\n";
  for (size_t row = 0; row < lines.size(); ++row) {
    text += "|";
    for (const auto& cell : lines[row]) text.append(" ").append(markdown_cell(cell)).append(" |");
    text += "\n";
    if (row > 0) continue;
    text += "|---|";
    for (size_t i = 1; i < lines[0].size(); ++i) text += "---:|";
    text += "\n";
  }
  return table.caption.empty() ? text : text + "\n" + table.caption + "\n";
}

}  // namespace deq::lab::reproduce
