#include <iostream>
#include <memory>

#include "commands.h"
#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/distributed/launch.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/experiment.h"
#include "lab/io/folder_name.h"
#include "lab/io/run_lock.h"
#include "lab/report/warnings.h"
#include "lab/train/interruption.h"
#include "output.h"
#include "standard_output.h"
#include "training.h"

namespace deq::lab::cli {
namespace {

struct TrainArguments {
  std::string config, resume, device = "cpu", out, trace;
  std::vector<std::string> overrides;
  int64_t processes = 1, tensor_parallel = 1, timeout = 600;
  bool json = false;
};

/// What else is set would make another training of a run.
void require_only_data_moves(const std::vector<std::string>& overrides) {
  for (const auto& setting : overrides) {
    require<UsageError>(setting.starts_with("data.path="),
                        "--resume goes on with the run's own configuration: --set can only tell "
                        "where its data is now (data.path), not {}; see deq train --help",
                        setting);
  }
}

TrainingJob job_of(const TrainArguments& arguments) {
  TrainingJob job{.device = arguments.device,
                  .timeout = std::chrono::seconds(arguments.timeout),
                  .quiet = arguments.json,
                  .tensor_parallel = arguments.tensor_parallel,
                  .trace = arguments.trace};
  if (arguments.resume.empty()) {
    require<UsageError>(!arguments.config.empty(),
                        "train needs a CONFIG, or --resume RUN; see deq train --help");
    job.experiment = read_experiment(arguments.config, arguments.overrides);
    job.folder =
        arguments.out.empty() ? free_run_folder(job.experiment.name) : without_slash(arguments.out);
  } else {
    require_only_data_moves(arguments.overrides);
    require_run(arguments.resume);
    job.folder = without_slash(arguments.resume);
    job.experiment = read_experiment(config_file(job.folder), arguments.overrides);
    job.start = Start::Resumed;
    job.data_has_moved = !arguments.overrides.empty();
  }
  return job;
}

/// Starts this very command once for each process; they know from their environment who they are.
[[noreturn]] void run_in_processes(const TrainArguments& arguments, const TrainingJob& job) {
  require_equal_shares(job, arguments.processes);
  require_data(job.experiment);
  const auto cores = usable_cores();
  if (arguments.device == "cpu" && arguments.processes > cores) {
    std::cerr << fmt::format(
        "deq: warning: {} processes share {} {}: fewer would be faster (--nproc {})\n",
        arguments.processes, cores, cores == 1 ? "core" : "cores", cores);
  }
  // Refused here, before every process says the same.
  if (job.start == Start::New) {
    require_free_folder(job.folder);
  } else {
    const RunLock probe(job.folder);
  }
  std::vector<std::string> command{"/proc/self/exe", "train"};
  if (job.start == Start::Resumed) {
    command.insert(command.end(), {"--resume", job.folder.string()});
  } else {
    command.insert(command.end(), {arguments.config, "--out", job.folder.string()});
  }
  for (const auto& setting : arguments.overrides) command.insert(command.end(), {"--set", setting});
  command.insert(command.end(),
                 {"--device", arguments.device, "--timeout", std::to_string(arguments.timeout),
                  "--tensor-parallel", std::to_string(arguments.tensor_parallel)});
  if (arguments.json) command.emplace_back("--json");
  if (!arguments.trace.empty()) command.insert(command.end(), {"--trace", arguments.trace});
  throw ExitStatus{launch_local(arguments.processes, command)};
}

void run_train(const TrainArguments& arguments) {
  outlive_readers();
  const auto job = job_of(arguments);
  if (arguments.processes > 1) run_in_processes(arguments, job);
  // Never destroyed: a signal after the last step is neither to spoil the report nor to end a
  // process that is leaving with its result.
  [[maybe_unused]] static const auto* const interruption = new Interruption;
  auto result = train(job);
  if (!result.is_main) return;
  const auto report = write_report(job.folder, {job.folder}, job.folder.filename().string());
  const auto warnings = warnings_about(metrics_lines(job.folder), job.experiment.recipe);
  for (const auto& warning : warnings) {
    std::cerr << fmt::format("{}: warning: {}\n", job.folder.filename().string(), warning);
  }
  if (arguments.json) {
    result.last.emplace_back("run", job.folder.string());
    result.last.emplace_back("report", report.string());
    std::cout << to_json(result.last, warnings) << '\n';
  } else {
    std::cout << fmt::format("run:    {}\nreport: {}\n", job.folder.string(), report.string());
  }
}

}  // namespace

void add_train(CLI::App& program) {
  const auto arguments = std::make_shared<TrainArguments>();
  auto* command = program.add_subcommand(
      "train", "Train the model that a configuration file describes, or go on with a run.");
  auto* config = command->add_option("CONFIG", arguments->config,
                                     "a TOML file, e.g. configs/paper/synthetic.toml");
  command
      ->add_option("--set", arguments->overrides,
                   "override a key, e.g. --set jacobian.gamma=2; may be repeated; with --resume "
                   "only data.path, where the data has moved")
      ->allow_extra_args(false);
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  auto* out =
      command->add_option("--out", arguments->out,
                          "the run folder, which must not exist or be empty (default: runs/NAME)");
  command
      ->add_option("--resume", arguments->resume,
                   "go on with this run folder from its newest checkpoint")
      ->excludes(config)
      ->excludes(out);
  command
      ->add_option("--nproc", arguments->processes,
                   "train in this many processes of this machine, which share each batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--tensor-parallel", arguments->tensor_parallel,
                   "so many processes hold the layers of gpt2 in parts together, and read the same "
                   "text")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--timeout", arguments->timeout,
                   "seconds that a process waits for the others before it gives up")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--json", arguments->json,
                    "print the result as one JSON object, and no progress");
  command->add_option(
      "--trace", arguments->trace,
      "also write what host and device do in a few steps to this file, for Perfetto");
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace deq::lab::cli
