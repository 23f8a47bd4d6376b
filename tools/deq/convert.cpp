#include "lab/trained/convert.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/experiment.h"

namespace deq::lab::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertArguments {
  std::string in, like, out, prefix;
  bool json = false;
};

bool names_a_file(const fs::path& out) {
  return out.extension() == ".safetensors";
}

void require_free(const fs::path& out) {
  if (!names_a_file(out)) return require_free_folder(out);
  require<UsageError>(!fs::exists(fs::symlink_status(out)),
                      "{} exists already, and nothing is overwritten", out.string());
}

Experiment experiment_like(const fs::path& like) {
  if (!fs::is_directory(like)) return read_experiment(like);
  require<UsageError>(fs::exists(config_file(like)), "{} holds no run: {} is missing",
                      like.string(), config_file(like).string());
  return read_experiment(config_file(like));
}

/// A checkpoint, or a new run folder with only that checkpoint.
void write(const fs::path& out, const Experiment& experiment, const Conversion& conversion,
           const std::vector<std::string>& classes) {
  const TensorFile file{.tensors = conversion.tensors,
                        .metadata = checkpoint_metadata(experiment.config, classes)};
  if (names_a_file(out)) return write_checkpoint_file(out, file);
  create_run_folder(out);
  write_file_atomically(config_file(out), experiment.config);
  Checkpoints(checkpoint_folder(out), 1).save(0, file);
}

void list(const char* what, const std::vector<std::string>& names) {
  for (const auto& group : grouped_names(names)) {
    std::cerr << "deq: " << what << ": " << group << '\n';
  }
}

void run_convert(const ConvertArguments& arguments) {
  require_free(arguments.out);
  require<UsageError>(fs::is_regular_file(arguments.in), "{} is no file", arguments.in);
  const auto experiment = experiment_like(arguments.like);
  const auto state_dict = read_safetensors(arguments.in).tensors;
  const auto task = experiment.make_task(torch::kCPU);
  const auto conversion = convert_state_dict(
      state_dict, task->model(), arguments.in,
      {.prefix = arguments.prefix.empty() ? std::nullopt : std::optional(arguments.prefix),
       .tied = task->tied()});
  write(arguments.out, experiment, conversion, task->classes());
  const size_t matched = conversion.tensors.size() - conversion.missing.size();
  if (arguments.json) {
    const nlohmann::ordered_json result{{"out", arguments.out},
                                        {"matched", matched},
                                        {"prefix", conversion.prefix},
                                        {"missing", conversion.missing},
                                        {"superfluous", conversion.superfluous}};
    std::cout << result.dump() << '\n';
    return;
  }
  list("missing, left as the model starts", conversion.missing);
  list("superfluous, left out", conversion.superfluous);
  std::cout << arguments.out << ": " << matched << " of " << conversion.tensors.size()
            << " tensors\n";
}

}  // namespace

void add_convert(CLI::App& program) {
  const auto arguments = std::make_shared<ConvertArguments>();
  auto* command = program.add_subcommand(
      "convert", "Make a checkpoint of weights that another program saved, matched by name.");
  command->add_option("IN", arguments->in, "a PyTorch state dict saved as safetensors")->required();
  command
      ->add_option("--like", arguments->like,
                   "the run folder or TOML file whose model the weights are for")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "the checkpoint NAME.safetensors, or a run folder to make; neither may exist")
      ->required();
  command->add_option("--prefix", arguments->prefix,
                      "take this off the names (default: what all of them share, such as "
                      "\"module.\", where more names fit the model without it)");
  command->add_flag("--json", arguments->json, "print one JSON object that names every difference");
  command->callback([arguments] { run_convert(*arguments); });
}

}  // namespace deq::lab::cli
