#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/require.h"
#include "deq/core/precision.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/train/trainer.h"
#include "deq/lab/trained/load_run.h"
#include "lab/base/device.h"
#include "lab/reproduce/results.h"
#include "measured_evaluation.h"
#include "output.h"
#include "reproduce_list.h"
#include "reproduce_plan.h"
#include "run_arguments.h"
#include "standard_output.h"
#include "training.h"

namespace deq::lab::cli {
namespace rp = reproduce;

namespace {

std::string to_do(const PlannedRun& run_reproduce) {
  switch (run_reproduce.need) {
    case rp::Need::Train:
      return "to train";
    case rp::Need::Resume:
      return "to go on with";
    case rp::Need::Nothing:
      break;
  }
  return run_reproduce.is_done() ? "done" : "trained, to evaluate";
}

void print_absences(const rp::Exhibit& exhibit) {
  for (const auto& line : rp::absences(exhibit)) std::cout << "not here: " << line << '\n';
}

void print_plan(const std::vector<PlannedRun>& runs, const rp::Exhibit& exhibit, bool json) {
  for (const auto& run_reproduce : runs) {
    if (json) {
      std::cout << to_json({{"run", run_reproduce.name},
                            {"folder", run_reproduce.folder.string()},
                            {"state", to_do(run_reproduce)}})
                << '\n';
    } else {
      std::cout << fmt::format("{:20} {:22} {}\n", run_reproduce.name, to_do(run_reproduce),
                               run_reproduce.folder.string());
    }
  }
  if (!json) print_absences(exhibit);
}

/// A model without regularisation may diverge: that is a result of the paper and no reason to stop.
void train_run(const PlannedRun& run_reproduce, const ReproduceArguments& arguments) {
  std::string failure;
  const Interruption interruption;
  try {
    train({.experiment = run_reproduce.experiment,
           .folder = run_reproduce.folder,
           .start = run_reproduce.need == rp::Need::Resume ? Start::Resumed : Start::New,
           .device = arguments.device,
           .quiet = arguments.json,
           .how_to_go_on = "run the same command again to go on"});
  } catch (const DivergedError& error) {
    failure = error.what();
    std::cerr << fmt::format("{}: {}\n", run_reproduce.name, failure);
  }
  rp::write_summary(run_reproduce.folder, rp::new_summary(run_reproduce.folder, failure));
  stop_if_interrupted();  // a signal that came after the last step
}

void evaluate_run(const PlannedRun& run_reproduce, const std::vector<int64_t>& budgets,
                  torch::Device device) {
  const auto loaded =
      load_run(run_reproduce.folder, device, WhichCheckpoint::Newest, run_reproduce.data_overrides);
  print_warnings(loaded.warnings);
  loaded.task->model().eval();
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(loaded.experiment.recipe.precision, device);
  auto results = rp::read_results(run_reproduce.folder);
  if (results.solves()) {
    for (auto& row : evaluate_budgets(loaded, device, budgets)) results.summary.add(std::move(row));
  } else {
    evaluate_measured(loaded, device);  // pays for what is chosen and claimed once
    results.summary.add(evaluate_measured(loaded, device));
  }
  rp::write_summary(run_reproduce.folder, results.summary);
}

void perform(const PlannedRun& run_reproduce, const rp::Exhibit& exhibit,
             const ReproduceArguments& arguments) {
  if (run_reproduce.need != rp::Need::Nothing) train_run(run_reproduce, arguments);
  const auto budgets = missing_budgets(exhibit, run_reproduce);
  if (!budgets.empty()) evaluate_run(run_reproduce, budgets, usable_device(arguments.device));
}

/// On standard error, as all progress.
void perform_all(const std::vector<PlannedRun>& runs, const rp::Exhibit& exhibit,
                 const ReproduceArguments& arguments) {
  const auto say = [&arguments](const std::string& line) {
    if (!arguments.json) std::cerr << line << '\n';
  };
  const auto there = std::ranges::count(runs, rp::Need::Nothing, &PlannedRun::need);
  if (there > 0) {
    say(fmt::format("{} of {} {} there already", there, runs.size(),
                    runs.size() == 1 ? "run was" : "runs were"));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].is_done()) say(fmt::format("run {} of {}: {}", i + 1, runs.size(), runs[i].name));
    perform(runs[i], exhibit, arguments);
  }
}

struct Written {
  std::filesystem::path report;
  std::vector<ReportTable> tables;
  std::vector<Metrics> rows;
};

/// Our numbers may differ from the paper's, so the page says whose they are.
std::string about_page(const rp::Exhibit& exhibit) {
  return fmt::format("The paper reports: {} What follows was measured on the runs of this page.",
                     exhibit.about);
}

Written write_results(const rp::Exhibit& exhibit, const std::vector<PlannedRun>& runs,
                      const ReproduceArguments& arguments) {
  const auto folder = std::filesystem::path(arguments.out) / arguments.scale / exhibit.name;
  std::filesystem::create_directories(folder);
  rp::Results results;
  ReportExtras extras{.about = about_page(exhibit)};
  std::vector<std::filesystem::path> folders;
  for (const auto& run_reproduce : runs) {
    results[run_reproduce.name] = rp::read_results(run_reproduce.folder);
    folders.push_back(run_reproduce.folder);
    extras.labels.push_back(rp::label_of(exhibit, run_reproduce.name));
  }
  extras.tables = rp::tables_of(exhibit, results);
  extras.figures = rp::figures_of(exhibit, results);
  Written written{.report = folder / "report.html",
                  .tables = extras.tables,
                  .rows = rp::rows_of(exhibit, results)};
  const auto title = fmt::format("{} (scale {})", exhibit.title, arguments.scale);
  write_file_atomically(written.report, render_report(folders, title, extras));
  std::string lines, text;
  for (const auto& row : written.rows) lines += to_json(row) + "\n";
  for (const auto& table : written.tables) text += (text.empty() ? "" : "\n") + rp::markdown(table);
  write_file_atomically(folder / "results.jsonl", lines);
  write_file_atomically(folder / "tables.md", text);
  return written;
}

Selection selection_of(const ReproduceArguments& arguments) {
  Selection selection{.name = arguments.name};
  if (arguments.scale_is_given) selection.scale = rp::scale_named(arguments.scale);
  return selection;
}

void run_reproduce(const ReproduceArguments& arguments) {
  outlive_readers();
  const auto recipes = recipes_folder(arguments);
  if (arguments.list) return list_exhibits(recipes, selection_of(arguments), arguments.json);
  require<UsageError>(!arguments.name.empty(),
                      "reproduce needs a NAME, or --list to see which there are");
  usable_device(arguments.device);  // refused before anything is made
  const auto catalogue = rp::read_catalogue(recipes, rp::scale_named(arguments.scale));
  const auto exhibit =
      rp::at_scale(rp::read_exhibit(recipes, arguments.name), catalogue, arguments.overrides);
  const auto runs = plan_runs(exhibit, catalogue, arguments);
  if (arguments.dry_run) return print_plan(runs, exhibit, arguments.json);
  perform_all(runs, exhibit, arguments);
  const auto written = write_results(exhibit, runs, arguments);
  if (arguments.json) {
    for (const auto& row : written.rows) std::cout << to_json(row) << '\n';
    return;
  }
  for (const auto& table : written.tables) std::cout << rp::plain_text(table) << '\n';
  print_absences(exhibit);
  std::cout << fmt::format("report: {}\n", written.report.string());
}

}  // namespace

void add_reproduce(CLI::App& program) {
  const auto arguments = std::make_shared<ReproduceArguments>();
  auto* command = program.add_subcommand(
      "reproduce",
      "Run what a figure or table of the paper needs, or go on with it, then collect and draw.");
  command->add_option("NAME", arguments->name, "fig1, table3 and so on; see --list");
  command->add_flag("--list", arguments->list,
                    "say what there is, what it costs and needs; of NAME and --scale where given");
  auto* scale =
      command
          ->add_option("--scale", arguments->scale,
                       "how large:\n"
                       "small: tiny models on a part of the data (configs/small), minutes to an\n"
                       "       hour on two CPU cores;\n"
                       "books: short trainings on CIFAR-10 and on a corpus such as books\n"
                       "       (configs/gpu), minutes on one GPU;\n"
                       "long:  the same at length, by our own recipes (configs/cifar10 and\n"
                       "       configs/books), hours on one GPU;\n"
                       "paper: the published settings (configs/paper), hours to weeks on GPUs")
          ->capture_default_str()
          ->check(CLI::IsMember({"small", "books", "long", "paper"}));
  command->add_option("--cifar10", arguments->data.cifar10,
                      "CIFAR-10: its own files, or folders of pictures");
  command->add_option("--text", arguments->data.text, "a corpus: train.txt, valid.txt, test.txt");
  command->add_option("--imagenet", arguments->data.imagenet, "ImageNet: folders of pictures");
  command->add_option("--out", arguments->out, "the folder for runs and results")
      ->capture_default_str();
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command
      ->add_option("--set", arguments->overrides,
                   "override a key of every run, e.g. --set train.steps=100; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--recipes", arguments->recipes,
                      "the folder that describes them (default: configs/reproduce)");
  command->add_flag("--dry-run", arguments->dry_run, "say what would run");
  command->add_flag("--json", arguments->json, "print JSON lines, and no progress");
  command->callback([arguments, scale] {
    arguments->scale_is_given = scale->count() > 0;
    run_reproduce(*arguments);
  });
}

}  // namespace deq::lab::cli
