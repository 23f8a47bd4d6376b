#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace deq::lab {

/// A list is a curve, such as the residuals of one solve.
using MetricValue = std::variant<int64_t, double, std::string, std::vector<double>>;

/// An append-only file of one JSON object per line, such as a run's metrics.jsonl. A line reaches
/// the file with one write, so that a reader sees whole lines and a killed process tears at most
/// the last.
class JsonLines {
 public:
  /// Goes on behind what the file holds; a torn last line is dropped first.
  explicit JsonLines(std::filesystem::path path);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  /// In the given order. NaN and infinities are left out: they were not measured. In a list they
  /// are null, and read back as NaN.
  void append(const std::vector<std::pair<std::string, MetricValue>>& values);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// All lines; a torn last one is passed over, any other broken line is an Error with its number.
std::vector<std::map<std::string, MetricValue>> read_json_lines(const std::filesystem::path& path);

/// Keeps only the lines with a whole number "step" ≤ `step`; a torn last line goes too. The file is
/// replaced whole or not at all, and only when something goes; a missing file is left missing.
void drop_lines_after(const std::filesystem::path& path, int64_t step);

}  // namespace deq::lab
