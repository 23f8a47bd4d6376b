#include "deq/report/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "deq/io/atomic_file.h"
#include "deq/version.h"

namespace deq {
namespace {

using nlohmann::ordered_json;

std::filesystem::path environment_file(const std::filesystem::path& run) {
  return run / "environment.json";
}

}  // namespace

Environment this_environment() {
  return {{"libdeq", version()},
          {"libtorch", TORCH_VERSION},
          {"CPU capability", at::get_cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())}};
}

void record_environment(const std::filesystem::path& run, const std::string& device) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : this_environment()) object[name] = value;
  object["device"] = device;
  write_file_atomically(environment_file(run), object.dump(1) + "\n");
}

Environment recorded_environment(const std::filesystem::path& run) {
  Environment environment;
  if (!std::filesystem::exists(environment_file(run))) return environment;
  // A page on a run is worth having without this, too.
  const auto object = ordered_json::parse(read_file(environment_file(run)), nullptr,
                                          /*allow_exceptions=*/false);
  if (!object.is_object()) return environment;
  for (const auto& [name, value] : object.items()) {
    if (value.is_string()) environment.emplace_back(name, value.get<std::string>());
  }
  return environment;
}

}  // namespace deq
