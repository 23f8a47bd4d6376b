// Training into a run folder, then using the model from its checkpoint, as a program that ships it
// would: the folder says what the model is.
//
// Expected output (numbers to 10%):
//
//   x = -2.0: z* =  -2.51, target  -2.82, converged after 4 evaluations
//   x = -1.0: z* =  -0.21, target  -0.18, converged after 3 evaluations
//   x =  0.0: z* =  -2.90, target  -3.00, converged after 5 evaluations
//   x =  1.0: z* =  -3.90, target  -3.82, converged after 6 evaluations
//   x =  2.0: z* =   4.61, target   4.82, converged after 4 evaluations

#include <deq/deq.h>
#include <deq/lab/io/atomic_file.h>
#include <deq/lab/io/run_folder.h>
#include <deq/lab/runs/run.h>
#include <deq/lab/tasks/synthetic.h>
#include <deq/lab/train/trainer.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "deq/lab/trained/load_run.h"

/// What `deq train` does, without its progress bar: the paper's scalar task, made short.
void train_into(const std::filesystem::path& run) {
  deq::lab::SyntheticConfig config;
  config.train.epochs = 10;
  const auto experiment = deq::lab::experiment_from(config);
  const auto task = experiment.make_task(torch::kCPU);
  deq::lab::create_run_folder(run);
  deq::lab::write_file_atomically(deq::lab::config_file(run), experiment.config);
  deq::lab::Trainer(*task, experiment.recipe, experiment.config, run, deq::lab::World::alone(), {})
      .run();
}

int main() {
  const auto run =
      std::filesystem::temp_directory_path() / ("deq-example-" + std::to_string(::getpid()));
  train_into(run);

  // From here on only the folder is known. Any key may be overridden, here the solver's budget.
  const auto loaded =
      deq::lab::load_run(run, torch::kCPU, deq::lab::WhichCheckpoint::Best,
                         {"solver.forward.max_evals=20", "solver.forward.rtol=1e-5"});
  for (const auto& warning : loaded.warnings) std::printf("%s\n", warning.c_str());
  auto& model = *loaded.task->model().as<deq::Equilibrium>();

  const torch::NoGradGuard no_grad;
  const auto x = torch::linspace(-2, 2, 5).unsqueeze(1);
  const auto eq = model.forward(x);
  const auto target = deq::lab::synthetic_target(x);
  for (int i = 0; i < 5; ++i) {
    const auto& solve = eq.report.samples[i];
    std::printf("x = %4.1f: z* = %6.2f, target %6.2f, %s after %d evaluations\n",
                x[i].item<double>(), eq.z()[i].item<double>(), target[i].item<double>(),
                deq::status_name(solve.status).data(), static_cast<int>(solve.evaluations));
  }
  std::filesystem::remove_all(run);
}
