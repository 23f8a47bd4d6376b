#include "lab/runs/metrics_writer.h"

#include <fmt/format.h>

#include "deq/lab/runs/run.h"

namespace deq::lab {

MetricsWriter::MetricsWriter(std::filesystem::path run)
    : run_(std::move(run)),
      lines_(std::make_unique<JsonLines>(metrics_file(run_))),
      events_(run_ / "tensorboard") {}

void MetricsWriter::write(const Metrics& line) {
  lines_->append(line);
  const std::string split = text(line, "split");
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [name, value] : line) {
    const bool scalar =
        std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    if (!scalar || name == "step") continue;
    scalars.emplace_back(fmt::format("{}/{}", split, name), number(line, name));
  }
  events_.scalars(static_cast<int64_t>(number(line, "step")), scalars);
}

void MetricsWriter::rewind(int64_t step) {
  lines_.reset();
  drop_lines_after(metrics_file(run_), step);
  lines_ = std::make_unique<JsonLines>(metrics_file(run_));
  events_.start_session(step);
}

}  // namespace deq::lab
