#include "training.h"

#include <fmt/format.h>

#include <iostream>

#include "commands.h"
#include "data_folder.h"
#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/distributed/world.h"
#include "deq/io/atomic_file.h"
#include "deq/io/run_folder.h"
#include "deq/report/environment.h"
#include "deq/train/interruption.h"
#include "deq/train/run.h"
#include "deq/train/trainer.h"
#include "progress.h"

namespace deq::cli {
namespace {

void require_data(const Experiment& experiment) {
  const auto folder = data_folder(experiment);
  if (folder.empty()) return;
  const auto fault = fault_of_folder(folder);
  require<UsageError>(fault.empty(), "data.path: ", fault);
}

/// "cuda" is a GPU for each process of a machine.
torch::Device device_for(const std::string& name, const WorldPlace& place) {
  return usable_device(name == "cuda" && place.size > 1 ? fmt::format("cuda:{}", place.local_rank)
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

/// For a run of epochs only its last evaluation tells how many steps that were.
std::string finished_line(const Metrics& last, const Recipe& recipe) {
  if (last.empty()) return "already finished";  // somebody took its metrics away
  const auto step = static_cast<int64_t>(number(last, "step"));
  return fmt::format("already finished, step {} of {}", step, recipe.train.steps.value_or(step));
}

std::string how_to_go_on(const TrainingJob& job) {
  return job.how_to_go_on.empty() ? "go on with: deq train --resume " + job.folder.string()
                                  : job.how_to_go_on;
}

/// Everything that can be refused is refused before the folder is made.
void prepare_folder(const TrainingJob& job) {
  if (job.start == Start::Resumed) return remove_leftovers(job.folder);
  create_run_folder(job.folder);
  write_file_atomically(config_file(job.folder), job.experiment.config);
  record_environment(job.folder, job.device);
}

}  // namespace

void require_equal_shares(const Recipe& recipe, int64_t processes) {
  const auto& train = recipe.train;
  require<UsageError>(train.batch_size % (processes * train.accumulation) == 0,
                      "train.batch_size = ", train.batch_size, ", must be a multiple of ",
                      processes * train.accumulation, ": ", processes,
                      processes == 1 ? " process" : " processes",
                      " times train.accumulation = ", train.accumulation);
}

TrainingResult train(const TrainingJob& job) {
  const auto place = place_from_environment();
  require_equal_shares(job.experiment.recipe, place.size);
  require_data(job.experiment);
  const auto device = device_for(job.device, place);
  const auto world = place.size == 1 ? World::alone() : World::join(place, device, job.timeout);
  const std::string label = job.folder.filename().string();
  ProgressBar bar(label, job.quiet || !world->is_main());
  const auto warn = [&](const std::string& line) {
    bar.clear();
    std::cerr << fmt::format("{}: {}\n", label, line);
  };
  const auto say = [&](const std::string& line) {
    if (!job.quiet) warn(line);
  };
  const Interruption interruption;
  auto end = TrainingEnd::Finished;
  int64_t steps = 0;  // of the whole training, known from the first step on
  world->run([&] {
    const auto task = job.experiment.make_task(device);
    const std::string metric = task->goal().metric;
    Trainer trainer(*task, job.experiment.recipe, job.experiment.config, job.folder, world,
                    {.record =
                         [&](const Metrics& line) {
                           if (text(line, "split") != "valid") return;
                           say(evaluation_line(line, steps, metric));
                         },
                     .progress =
                         [&](const StepNews& news) {
                           steps = news.steps;
                           bar.update(news.step, news.steps, [&news] {
                             return fmt::format("loss {:.4g}  nfe {:.0f}  residual {:.1e}",
                                                news.loss, news.nfe_forward, news.residual);
                           });
                         },
                     .warn = warn,
                     .interrupted = &Interruption::requested});
    if (world->is_main()) prepare_folder(job);
    if (job.start == Start::Resumed) trainer.resume();
    end = trainer.run();
  });
  if (end == TrainingEnd::Interrupted) {
    if (world->is_main()) {
      bar.clear();
      std::cerr << fmt::format("{}: interrupted and saved; {}\n", label, how_to_go_on(job));
    }
    throw ExitStatus{128 + Interruption::requested()};
  }
  if (!world->is_main()) return {.last = {}, .is_main = false};
  auto last = last_evaluation(job.folder);
  if (steps == 0) say(finished_line(last, job.experiment.recipe));
  return {.last = std::move(last), .is_main = true};
}

}  // namespace deq::cli
