#include "lab/reproduce/run_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/require.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "lab/io/checksum.h"

namespace deq::lab::reproduce {
namespace {

using nlohmann::ordered_json;

std::filesystem::path summary_file(const std::filesystem::path& run) {
  return run / "reproduce.json";
}

bool has_checkpoints(const std::filesystem::path& run) {
  std::error_code code;
  const std::filesystem::directory_iterator files(checkpoint_folder(run), code);
  return !code && files != std::filesystem::directory_iterator();
}

std::optional<Checkpoints::Found> newest_checkpoint(const std::filesystem::path& run) {
  return Checkpoints(checkpoint_folder(run), 1).newest([](const std::string&) {});
}

/// What is trained has a first moment beside it; buffers and vocabularies have none.
int64_t trained_parameters(const TensorFile& file) {
  int64_t trained = 0, all = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const bool of_optimiser = name.starts_with(kOptimiserPrefix);
    const auto rest = std::string_view(name).substr(of_optimiser ? kOptimiserPrefix.size() : 0);
    const bool moment =
        of_optimiser && (rest.starts_with("exp_avg/") || rest.starts_with("momentum/"));
    if (moment) trained += tensor.numel();
    if (is_of_model(name) && tensor.is_floating_point()) all += tensor.numel();
  }
  return trained > 0 ? trained : all;
}

/// Without curves, which no table shows.
ordered_json summary_json(const Metrics& metrics) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : metrics) {
    const auto* real = std::get_if<double>(&value);
    const bool not_finite = real != nullptr && !std::isfinite(*real);
    if (not_finite || std::holds_alternative<std::vector<double>>(value)) continue;
    std::visit([&object, &key = name](const auto& held) { object[key] = held; }, value);
  }
  return object;
}

Metrics as_metrics(const ordered_json& object) {
  Metrics metrics;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_integer()) {
      metrics.emplace_back(name, value.get<int64_t>());
    } else if (value.is_number()) {
      metrics.emplace_back(name, value.get<double>());
    } else {
      metrics.emplace_back(name, value.get<std::string>());
    }
  }
  return metrics;
}

}  // namespace

const Metrics* RunSummary::evaluation(int64_t budget) const {
  for (const auto& row : evaluations) {
    const double own = number(row, "budget");
    if (!std::isfinite(own) || own == static_cast<double>(budget)) return &row;
  }
  return nullptr;
}

void RunSummary::add(Metrics evaluation) {
  evaluations.push_back(std::move(evaluation));
  std::ranges::stable_sort(evaluations, {},
                           [](const Metrics& row) { return number(row, "budget"); });
}

std::optional<RunSummary> read_summary(const std::filesystem::path& run) {
  if (!std::filesystem::exists(summary_file(run))) return std::nullopt;
  try {
    const auto object = ordered_json::parse(read_file(summary_file(run)));
    RunSummary summary{.checkpoint = object.at("checkpoint").get<std::string>(),
                       .parameters = object.at("parameters").get<int64_t>(),
                       .failure = object.at("failure").get<std::string>()};
    // Where the checkpoints are gone, what is known of them still counts.
    if (has_checkpoints(run)) {
      const auto checkpoint = newest_checkpoint(run);
      const bool same = checkpoint && summary.checkpoint == content_checksum(checkpoint->file);
      if (!same) return std::nullopt;
    }
    for (const auto& row : object.at("evaluations")) summary.evaluations.push_back(as_metrics(row));
    return summary;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("cannot use {}: {}; remove it to have it written anew",
                            summary_file(run).string(), error.what()));
  }
}

RunSummary new_summary(const std::filesystem::path& run, const std::string& failure) {
  const auto checkpoint = newest_checkpoint(run);
  require(checkpoint.has_value(), "{} holds no whole checkpoint", run.string());
  return {.checkpoint = content_checksum(checkpoint->file),
          .parameters = trained_parameters(checkpoint->file),
          .failure = failure};
}

void write_summary(const std::filesystem::path& run, const RunSummary& summary) {
  ordered_json object{{"checkpoint", summary.checkpoint},
                      {"parameters", summary.parameters},
                      {"failure", summary.failure},
                      {"evaluations", ordered_json::array()}};
  for (const auto& row : summary.evaluations) object["evaluations"].push_back(summary_json(row));
  write_file_atomically(summary_file(run), object.dump(1) + "\n");
}

}  // namespace deq::lab::reproduce
