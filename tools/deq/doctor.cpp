#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/version.h"
#include "lab/base/device.h"
#include "output.h"
#include "replay_check.h"

namespace deq::lab::cli {
namespace {

Metrics examine() {
  const auto& cuda = cuda_status();
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

struct DoctorArguments {
  std::string device;
  bool json = false;
};

void run_doctor(const DoctorArguments& arguments) {
  auto facts = examine();
  if (!arguments.device.empty()) {
    facts.emplace_back("replay", check_replays(usable_device(arguments.device)));
  }
  const bool json = arguments.json;
  if (json) {
    std::cout << to_json(facts) << '\n';
    return;
  }
  for (const auto& [name, value] : facts) {
    std::cout << fmt::format("{:16} {}\n", name, as_text(value));
  }
  std::cout << (cuda_status().available ? "Everything is there.\n"
                                        : "Everything for the CPU is there.\n");
}

}  // namespace

void add_doctor(CLI::App& program) {
  const auto arguments = std::make_shared<DoctorArguments>();
  auto* command = program.add_subcommand(
      "doctor", "Say what this program runs on: versions, devices, threads, and what is missing.");
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->add_option("--device", arguments->device,
                      "train small models on this device for some steps, and compare what a GPU "
                      "replays with its evaluation");
  command->callback([arguments] { run_doctor(*arguments); });
}

}  // namespace deq::lab::cli
