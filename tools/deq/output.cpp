#include "output.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "deq/lab/io/atomic_file.h"
#include "lab/report/html_report.h"

namespace deq::lab::cli {

static nlohmann::ordered_json object_of(const Metrics& metrics) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : metrics) {
    const auto* real = std::get_if<double>(&value);
    if (real != nullptr && !std::isfinite(*real)) continue;
    std::visit([&object, &key = name](const auto& held) { object[key] = held; }, value);
  }
  return object;
}

std::string to_json(const Metrics& metrics) {
  return object_of(metrics).dump();
}

std::string to_json(const Metrics& metrics, const std::vector<std::string>& warnings) {
  auto object = object_of(metrics);
  object["warnings"] = warnings;
  return object.dump();
}

static std::string rounded_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "–";
}

std::string as_text(const MetricValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return rounded_text(*real, 6);
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  std::string list;
  for (const double entry : std::get<std::vector<double>>(value)) {
    if (!list.empty()) list += ' ';
    list += rounded_text(entry, 3);
  }
  return list;
}

std::filesystem::path free_run_folder(const std::string& name) {
  std::filesystem::path folder = std::filesystem::path("runs") / name;
  for (int n = 2; std::filesystem::exists(folder); ++n) {
    folder = std::filesystem::path("runs") / fmt::format("{}-{}", name, n);
  }
  return folder;
}

std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::vector<std::filesystem::path>& runs,
                                   const std::string& title) {
  auto file = folder / "report.html";
  write_file_atomically(file, render_report(runs, title));
  return file;
}

}  // namespace deq::lab::cli
