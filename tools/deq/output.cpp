#include "output.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "deq/core/cuda.h"
#include "deq/io/atomic_file.h"
#include "deq/io/json_lines.h"
#include "deq/io/run_folder.h"
#include "deq/report/report.h"
#include "deq/train/run.h"
#include "deq/train/synthetic.h"
#include "progress.h"

namespace deq::cli {

std::string to_json(const Metrics& metrics) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : metrics) {
    const auto* real = std::get_if<double>(&value);
    if (real != nullptr && !std::isfinite(*real)) continue;
    std::visit([&object, &key = name](const auto& held) { object[key] = held; }, value);
  }
  return object.dump();
}

std::filesystem::path free_run_folder(const std::string& name) {
  std::filesystem::path folder = std::filesystem::path("runs") / name;
  for (int n = 2; std::filesystem::exists(folder); ++n) {
    folder = std::filesystem::path("runs") / fmt::format("{}-{}", name, n);
  }
  return folder;
}

Metrics train_into(const std::filesystem::path& folder, const SyntheticConfig& config,
                   const std::string& device, bool quiet) {
  // Everything that can be refused is refused before the folder is made.
  SyntheticExperiment experiment(config, usable_device(device));
  create_run_folder(folder);
  write_file_atomically(config_file(folder), to_toml(config));
  JsonLines metrics(metrics_file(folder));
  Metrics last;
  ProgressBar bar(folder.filename().string(), quiet);
  experiment.train({.record =
                        [&](const Metrics& line) {
                          metrics.append(line);
                          if (std::get<std::string>(line[2].second) != "valid") return;
                          last = line;
                          if (quiet) return;
                          bar.clear();
                          std::cerr << fmt::format(
                              "{}: epoch {:.0f}  mse {:.4g}  slope {:.3f}  residual {:.1e}\n",
                              folder.filename().string(), number(line, "epoch"),
                              number(line, "mse"), number(line, "slope"), number(line, "residual"));
                        },
                    .progress = [&](int64_t step, int64_t steps,
                                    double loss) { bar.update(step, steps, loss); }});
  std::filesystem::create_directories(final_checkpoint(folder).parent_path());
  write_safetensors(final_checkpoint(folder), experiment.checkpoint());
  return last;
}

std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::vector<std::filesystem::path>& runs,
                                   const std::string& title) {
  auto file = folder / "report.html";
  write_file_atomically(file, render_report(runs, title));
  return file;
}

}  // namespace deq::cli
