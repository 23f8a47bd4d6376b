#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "checks.h"
#include "commands.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/tasks/synthetic.h"
#include "lab/base/device.h"
#include "lab/train/interruption.h"
#include "output.h"
#include "standard_output.h"
#include "training.h"

namespace deq::lab::cli {
namespace {

constexpr int kGammas[] = {0, 1, 2, 4};  // the paper's, Table 4

struct DemoArguments {
  std::string device = "cpu", out;
  int64_t seed = 0;
  bool json = false;
};

void print_demo_table(const std::vector<Metrics>& results) {
  std::cout
      << "\n"
         "         validation   |df/dz|      evaluations to 1e-3          evaluations to 1e-6\n"
         "  gamma     MSE        at z*    Picard Anderson Broyden     Picard Anderson Broyden\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& r = results[i];
    std::cout << fmt::format(
        "  {:>5} {:>10.4f} {:>10.3f}   {:>7.1f} {:>8.1f} {:>7.1f}    {:>7.1f} "
        "{:>8.1f} {:>7.1f}\n",
        kGammas[i], number(r, "mse"), number(r, "slope"), number(r, "nfe_to_1e-3.picard"),
        number(r, "nfe_to_1e-3.anderson"), number(r, "nfe_to_1e-3.broyden"),
        number(r, "nfe_to_1e-6.picard"), number(r, "nfe_to_1e-6.anderson"),
        number(r, "nfe_to_1e-6.broyden"));
  }
  std::cout
      << "\nEvery gamma fits the target; the slope at the equilibrium, and with it the cost of\n"
         "solving for it, falls as gamma grows.\n\n";
}

void run_demo(const DemoArguments& arguments) {
  outlive_readers();
  const auto folder =
      arguments.out.empty() ? free_run_folder("demo") : std::filesystem::path(arguments.out);
  usable_device(arguments.device);  // refused before anything is made
  create_run_folder(folder);
  const Interruption interruption;
  std::vector<Metrics> results;
  std::vector<std::filesystem::path> runs;
  for (const int gamma : kGammas) {
    SyntheticConfig config;
    config.seed = arguments.seed;
    config.jacobian.gamma = {.shape = ConstantSchedule{.value = static_cast<double>(gamma)}};
    runs.push_back(folder / fmt::format("gamma-{}", gamma));
    results.push_back(train({.experiment = experiment_from(config),
                             .folder = runs.back(),
                             .device = arguments.device,
                             .quiet = arguments.json})
                          .last);
    if (!arguments.json) continue;
    auto line = results.back();
    line.emplace_back("run", runs.back().string());
    std::cout << to_json(line) << '\n';
  }
  const auto report = write_report(folder, runs, "The synthetic experiment");
  if (arguments.json) return;
  print_demo_table(results);
  std::cout << fmt::format("runs:   {}\nreport: {}\n", folder.string(), report.string());
}

}  // namespace

void add_demo(CLI::App& program) {
  const auto arguments = std::make_shared<DemoArguments>();
  auto* command = program.add_subcommand(
      "demo", "Run the paper's synthetic experiment for gamma = 0, 1, 2, 4; under a minute.");
  command->add_option(
      "--out", arguments->out,
      "the folder for the runs, which must not exist or be empty (default: runs/demo)");
  command->add_option("--seed", arguments->seed, "of the data, the weights and the training")
      ->capture_default_str()
      ->check(whole_number);
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--json", arguments->json, "print one JSON object per run, and no progress");
  command->callback([arguments] { run_demo(*arguments); });
}

}  // namespace deq::lab::cli
