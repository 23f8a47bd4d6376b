#include "reproduce/run_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "deq/core/error.h"
#include "deq/io/atomic_file.h"
#include "deq/io/checksum.h"
#include "deq/train/checkpoints.h"
#include "deq/train/run.h"

namespace deq::reproduce {
namespace {

using nlohmann::ordered_json;

std::filesystem::path record_file(const std::filesystem::path& run) {
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
    const bool moment = name.starts_with(std::string(kOptimiserPrefix) + "exp_avg/") ||
                        name.starts_with(std::string(kOptimiserPrefix) + "momentum/");
    const bool of_model = !name.starts_with(kOptimiserPrefix) && !name.starts_with(kCarriedPrefix);
    if (moment) trained += tensor.numel();
    if (of_model && tensor.is_floating_point()) all += tensor.numel();
  }
  return trained > 0 ? trained : all;
}

/// Without curves, which no table shows.
ordered_json as_json(const Metrics& metrics) {
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

const Metrics* RunRecord::evaluation(int64_t budget) const {
  for (const auto& row : evaluations) {
    const double own = number(row, "budget");
    if (!std::isfinite(own) || own == static_cast<double>(budget)) return &row;
  }
  return nullptr;
}

void RunRecord::add(Metrics evaluation) {
  evaluations.push_back(std::move(evaluation));
  std::ranges::stable_sort(evaluations, {},
                           [](const Metrics& row) { return number(row, "budget"); });
}

std::optional<RunRecord> read_record(const std::filesystem::path& run) {
  if (!std::filesystem::exists(record_file(run))) return std::nullopt;
  try {
    const auto object = ordered_json::parse(read_file(record_file(run)));
    RunRecord record{.checkpoint = object.at("checkpoint").get<std::string>(),
                     .parameters = object.at("parameters").get<int64_t>(),
                     .failure = object.at("failure").get<std::string>()};
    // Where the checkpoints were left behind, what is known of them still counts.
    if (has_checkpoints(run)) {
      const auto checkpoint = newest_checkpoint(run);
      const bool same = checkpoint && record.checkpoint == content_checksum(checkpoint->file);
      if (!same) return std::nullopt;
    }
    for (const auto& row : object.at("evaluations")) record.evaluations.push_back(as_metrics(row));
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw Error(c10::str("cannot use ", record_file(run).string(), ": ", error.what(),
                         "; remove it to have it written anew"));
  }
}

RunRecord new_record(const std::filesystem::path& run, const std::string& failure) {
  const auto checkpoint = newest_checkpoint(run);
  require(checkpoint.has_value(), run.string(), " holds no whole checkpoint");
  return {.checkpoint = content_checksum(checkpoint->file),
          .parameters = trained_parameters(checkpoint->file),
          .failure = failure};
}

void write_record(const std::filesystem::path& run, const RunRecord& record) {
  ordered_json object{{"checkpoint", record.checkpoint},
                      {"parameters", record.parameters},
                      {"failure", record.failure},
                      {"evaluations", ordered_json::array()}};
  for (const auto& row : record.evaluations) object["evaluations"].push_back(as_json(row));
  write_file_atomically(record_file(run), object.dump(1) + "\n");
}

}  // namespace deq::reproduce
