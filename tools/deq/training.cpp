#include "training.h"

#include <iostream>
#include <memory>
#include <optional>

#include "commands.h"
#include "core/require.h"
#include "data_folder.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/distributed/world.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/world_parallel.h"
#include "deq/lab/train/trainer.h"
#include "lab/base/device.h"
#include "lab/io/run_lock.h"
#include "lab/report/environment.h"
#include "lab/train/interruption.h"
#include "lab/train/step_plan.h"
#include "progress.h"
#include "traced_steps.h"

namespace deq::lab::cli {
namespace {

/// "cuda" is a GPU for each process of a machine.
torch::Device device_for(const std::string& name, const RankInfo& self) {
  return usable_device(name == "cuda" && self.size > 1 ? fmt::format("cuda:{}", self.local_rank)
                                                       : name);
}

std::string evaluation_line(const Metrics& line, int64_t steps, const std::string& metric) {
  auto text = fmt::format("epoch {:.0f}  step {:.0f}/{}  {} {:.4g}", number(line, "epoch"),
                          number(line, "step"), steps, metric, number(line, metric));
  for (const auto& [name, format] :
       {std::pair{"rho", "  rho {:.3f}"}, std::pair{"residual", "  residual {:.1e}"},
        std::pair{"nfe_forward", "  nfe {:.0f}"}}) {
    const double value = number(line, name);
    if (value == value) text += fmt::format(fmt::runtime(format), value);
  }
  return text;
}

Metrics last_evaluation(const std::filesystem::path& run) {
  Metrics last;
  for (const auto& line : read_json_lines(metrics_file(run))) {
    Metrics metrics(line.begin(), line.end());
    if (text(metrics, "split") == "valid") last = std::move(metrics);
  }
  return last;
}

std::string phase_name(const StepNews& news) {
  if (news.phase == TrainingPhase::Pretraining) return "pretraining";
  return news.nfe_forward > 0 ? "solving" : "training";  // an explicit network solves nothing
}

ProgressBar::Facts facts_of(const StepNews& news) {
  return {.phase = phase_name(news),
          .figures = {fmt::format("loss {:.4g}", news.loss),
                      fmt::format("nfe {:.0f}", news.nfe_forward),
                      fmt::format("residual {:.1e}", news.residual)}};
}

std::string how_to_go_on(const TrainingJob& job) {
  return job.how_to_go_on.empty() ? "go on with: deq train --resume " + job.folder.string()
                                  : job.how_to_go_on;
}

/// Everything that can be refused is refused before the folder is made.
std::unique_ptr<RunLock> make_folder(const TrainingJob& job) {
  create_run_folder(job.folder);
  auto lock = std::make_unique<RunLock>(job.folder);
  require_free_folder(job.folder);  // another process may have trained there a moment ago
  write_file_atomically(config_file(job.folder), job.experiment.config);
  write_environment(job.folder, job.device);
  return lock;
}

/// Where all ranks refuse to make it, the main one says why. Where only some do, each of them says
/// so.
std::shared_ptr<Task> make_task(const TrainingJob& job, torch::Device device, World& world,
                                const std::shared_ptr<World>& together) {
  std::shared_ptr<Task> task;
  std::optional<UsageError> refusal;
  try {
    task = together->size() == 1
               ? job.experiment.make_task(device)
               : job.experiment.make_part(device, std::make_shared<WorldParallel>(together));
  } catch (const UsageError& error) {
    refusal = error;
  }
  if (world.size() > 1) {
    const auto refusing =
        torch::tensor(refusal ? int64_t{1} : int64_t{0}, torch::TensorOptions(device));
    world.sum(refusing);
    const bool all = refusing.item<int64_t>() == world.size();
    if (all && !world.is_main()) throw ExitStatus{kMisuse};
  }
  if (refusal) throw UsageError(*refusal);
  return task;
}

/// Of a run that was resumed with no step left.
std::string nothing_left(const Trainer& trainer) {
  const auto step = trainer.step(), steps = trainer.steps();
  if (step == steps) return fmt::format("already finished, step {} of {}", step, steps);
  return fmt::format(
      "its checkpoint is of step {}, but its configuration asks for {} {} only: nothing is left to "
      "train",
      step, steps, steps == 1 ? "step" : "steps");
}

}  // namespace

void require_data(const Experiment& experiment) {
  const auto folder = data_folder(experiment);
  if (folder.empty()) return;
  const auto fault = fault_of_folder(folder);
  require<UsageError>(fault.empty(), "data.path: {}", fault);
}

void require_equal_shares(const TrainingJob& job, int64_t processes) {
  const auto parts = job.tensor_parallel;
  if (parts > 1) {
    require<UsageError>(static_cast<bool>(job.experiment.make_part),
                        "--tensor-parallel {}: only the network gpt2 can be held in parts", parts);
    require<UsageError>(processes % parts == 0,
                        "--tensor-parallel {} must divide the number of processes, {} (--nproc)",
                        parts, processes);
    job.experiment.require_divisible(parts);
    processes /= parts;  // that have a share each
  }
  const auto& train = job.experiment.recipe.train;
  require<UsageError>(
      train.batch_size % (processes * train.accumulation) == 0,
      "train.batch_size = {}, must be a multiple of {}: {}{} times train.accumulation = {}",
      train.batch_size, processes * train.accumulation, processes,
      processes == 1 ? " process" : " processes", train.accumulation);
}

TrainingResult train(const TrainingJob& job) {
  const auto self = rank_from_environment();
  require_equal_shares(job, self.size);
  require_data(job.experiment);
  const auto device = device_for(job.device, self);
  const auto world = self.size == 1 ? World::alone() : World::join(self, device, job.timeout);
  const std::string label = job.folder.filename().string();
  ProgressBar bar(label, "steps", job.quiet || !world->is_main());
  const auto warn = [&](const std::string& line) {
    bar.clear();
    std::cerr << fmt::format("{}: {}\n", label, line);
  };
  const auto say = [&](const std::string& line) {
    if (!job.quiet) warn(line);
  };
  TracedSteps traced(job.trace, device, steps_with_pretraining(job.experiment.recipe.train));
  auto end = TrainingEnd::Finished;
  int64_t steps = 0;              // of the whole training
  std::unique_ptr<RunLock> lock;  // of the main rank
  world->run([&] {
    if (world->is_main() && job.start == Start::Resumed) {
      lock = std::make_unique<RunLock>(job.folder);
      remove_leftovers(job.folder);
    }
    world->require_same("--tensor-parallel", std::to_string(job.tensor_parallel));
    const auto [together, copies] = World::grid(world, job.tensor_parallel);
    const auto task = make_task(job, device, *world, together);
    const std::string metric = task->goal().metric;
    Trainer trainer(*task, job.experiment.recipe, job.experiment.config, job.folder, world,
                    {.on_metrics =
                         [&](const Metrics& line) {
                           if (text(line, "split") != "valid") return;
                           say(evaluation_line(line, steps, metric));
                         },
                     .progress =
                         [&](const StepNews& news) {
                           if (news.phase == TrainingPhase::Evaluating) {
                             return bar.pause(news.step, news.steps, "evaluating");
                           }
                           traced.after(news);
                           bar.update(news.step, news.steps, [&news] { return facts_of(news); });
                         },
                     .warn = warn,
                     .interrupted = &Interruption::requested},
                    copies);
    steps = trainer.steps();
    if (world->is_main() && job.start == Start::New) lock = make_folder(job);
    if (job.start == Start::Resumed) trainer.resume();
    if (world->is_main() && job.data_has_moved) {
      write_file_atomically(config_file(job.folder), job.experiment.config);
    }
    const auto left = trainer.step() < steps ? std::string() : nothing_left(trainer);
    end = trainer.run();
    if (end == TrainingEnd::Finished && !left.empty() && world->is_main()) say(left);
  });
  if (end == TrainingEnd::Interrupted) {
    if (world->is_main()) {
      bar.clear();
      std::cerr << fmt::format("{}: interrupted and saved; {}\n", label, how_to_go_on(job));
    }
    throw ExitStatus{128 + Interruption::requested()};
  }
  if (!world->is_main()) return {.last = {}, .is_main = false};
  if (traced.missing())
    warn("warning: --trace: the training ended before there was a step to trace");
  auto last = last_evaluation(job.folder);
  return {.last = std::move(last), .is_main = true};
}

}  // namespace deq::lab::cli
