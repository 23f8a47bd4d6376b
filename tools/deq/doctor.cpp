#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <iostream>
#include <memory>
#include <thread>

#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/version.h"
#include "output.h"

namespace deq::cli {
namespace {

Metrics examine() {
  const auto& cuda = load_cuda();
  Metrics facts{{"deq", version()},
                {"libtorch", TORCH_VERSION},
                {"compiler", __VERSION__},
                {"cpu_capability", at::get_cpu_capability()},
                {"cores", static_cast<int64_t>(std::thread::hardware_concurrency())},
                {"threads", static_cast<int64_t>(at::get_num_threads())},
                {"cuda", cuda.available ? "available" : "not available"}};
  if (cuda.available) {
    facts.emplace_back("gpus", static_cast<int64_t>(torch::cuda::device_count()));
  } else {
    facts.emplace_back("cuda_reason", cuda.reason);
  }
  return facts;
}

void run(bool json) {
  const auto facts = examine();
  if (json) {
    std::cout << to_json(facts) << '\n';
    return;
  }
  for (const auto& [name, value] : facts) {
    std::cout << fmt::format("{:16} {}\n", name, as_text(value));
  }
  std::cout << (load_cuda().available ? "Everything is there.\n"
                                      : "Everything for the CPU is there.\n");
}

}  // namespace

void add_doctor(CLI::App& program) {
  const auto json = std::make_shared<bool>(false);
  auto* command = program.add_subcommand(
      "doctor", "Say what this program runs on: versions, devices, threads, and what is missing.");
  command->add_flag("--json", *json, "print one JSON object");
  command->callback([json] { run(*json); });
}

}  // namespace deq::cli
