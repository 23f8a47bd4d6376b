#include "lab/report/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "deq/core/cuda.h"
#include "deq/lab/distributed/rank_info.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/version.h"
#include "lab/base/device.h"
#include "lab/report/machine.h"

namespace deq::lab {
namespace {

using nlohmann::ordered_json;

std::filesystem::path environment_file(const std::filesystem::path& run) {
  return run / "environment.json";
}

/// What a training with this device uses: of several processes each takes a GPU of its own.
Environment gpu_environment(const std::string& device) {
  if (!device.starts_with("cuda") || !cuda_status().available) return {};
  const bool named = device.size() > std::string("cuda:").size();
  const int first = named ? usable_device(device).index() : 0;
  const auto there = static_cast<int64_t>(torch::cuda::device_count());
  const auto used = named ? 1 : std::min(rank_from_environment().size, there);
  return {{"GPU", gpu_names(first, static_cast<int>(used))},
          {"CUDA runtime", cuda_runtime_version()}};
}

}  // namespace

Environment this_environment() {
  Environment environment{{"libdeq", version()},
                          {"libtorch", TORCH_VERSION},
                          {"CPU", cpu_model()},
                          {"CPU capability", at::get_cpu_capability()},
                          {"cores", std::to_string(std::thread::hardware_concurrency())},
                          {"threads", std::to_string(at::get_num_threads())},
                          {"system", operating_system()}};
  std::erase_if(environment, [](const auto& entry) { return entry.second.empty(); });
  return environment;
}

void write_environment(const std::filesystem::path& run, const std::string& device) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : this_environment()) object[name] = value;
  object["device"] = device;
  for (const auto& [name, value] : gpu_environment(device)) {
    if (!value.empty()) object[name] = value;
  }
  object["started"] = utc_now();
  write_file_atomically(environment_file(run), object.dump(1) + "\n");
}

Environment read_environment(const std::filesystem::path& run) {
  Environment environment;
  if (!std::filesystem::exists(environment_file(run))) return environment;
  // A report is worth having without this, too.
  const auto object = ordered_json::parse(read_file(environment_file(run)), nullptr,
                                          /*allow_exceptions=*/false);
  if (!object.is_object()) return environment;
  for (const auto& [name, value] : object.items()) {
    if (value.is_string()) environment.emplace_back(name, value.get<std::string>());
  }
  return environment;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace deq::lab
