#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "commands.h"
#include "deq/config/experiment.h"
#include "deq/config/synthetic.h"
#include "output.h"

namespace deq::cli {
namespace {

struct Arguments {
  std::string config, device = "cpu", out;
  std::vector<std::string> overrides;
  bool json = false;
};

void run(const Arguments& arguments) {
  const auto experiment = experiment_of(arguments.config, arguments.overrides);
  const auto config = load_synthetic(arguments.config, arguments.overrides);
  const auto folder =
      arguments.out.empty() ? free_run_folder(experiment) : std::filesystem::path(arguments.out);
  auto result = train_into(folder, config, arguments.device, arguments.json);
  const auto report = write_report(folder, {folder}, folder.filename().string());
  if (arguments.json) {
    result.emplace_back("run", folder.string());
    result.emplace_back("report", report.string());
    std::cout << to_json(result) << '\n';
  } else {
    std::cout << fmt::format("run:    {}\nreport: {}\n", folder.string(), report.string());
  }
}

}  // namespace

void add_train(CLI::App& program) {
  const auto arguments = std::make_shared<Arguments>();
  auto* command = program.add_subcommand(
      "train", "Train the model that a configuration file describes, into a new run folder.");
  command->add_option("CONFIG", arguments->config, "a TOML file, e.g. configs/paper/synthetic.toml")
      ->required();
  command
      ->add_option("--set", arguments->overrides,
                   "override a key, e.g. --set jacobian.gamma=2; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--out", arguments->out,
                      "the run folder, which must not exist or be empty (default: runs/NAME)");
  command->add_flag("--json", arguments->json,
                    "print the result as one JSON object, and no progress");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace deq::cli
