#include "deq/lab/tasks/reasoning.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/require.h"
#include "deq/core/precision.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/puzzles/puzzle_dataset.h"
#include "deq/lab/settings/evaluation.h"
#include "lab/networks/reasoner_network.h"
#include "lab/tasks/make_experiment.h"
#include "lab/tasks/puzzle_loss.h"
#include "lab/tasks/puzzle_slots.h"
#include "lab/tasks/stability.h"
#include "lab/train/rank_sum.h"

namespace deq::lab {
namespace {

/// Sums over puzzles, in a row so that one reduction serves them all.
struct PuzzleTally {
  enum Name { kPuzzles, kExact, kExactFirst, kCells, kLoss, kEvaluations, kSolves, kCount };
  std::array<double, kCount> sums{};
  std::vector<Report> reports;
};

PuzzleSet first_puzzles(const std::filesystem::path& file, std::optional<int64_t> wanted) {
  require<UsageError>(std::filesystem::exists(file),
                      "there is no {}; deq data make sudoku makes one, deq data make maze another",
                      file.string());
  auto set = read_puzzles(file);
  const auto found = static_cast<int64_t>(set.puzzles.size());
  set.puzzles.resize(static_cast<size_t>(std::min(found, wanted.value_or(found))));
  return set;
}

/// The puzzles as two tensors [puzzles, cells].
Batch stacked(const PuzzleSet& set) {
  std::vector<torch::Tensor> questions, answers;
  for (const auto& puzzle : set.puzzles) {
    questions.push_back(tokens_of(puzzle.question));
    answers.push_back(tokens_of(puzzle.answer));
  }
  return {.tensors = {torch::stack(questions), torch::stack(answers)}};
}

Batch rows_of(const Batch& batch, int64_t begin, int64_t count) {
  Batch part;
  for (const auto& tensor : batch.tensors) part.tensors.push_back(tensor.narrow(0, begin, count));
  return part;
}

torch::Tensor residuals_of(const Report& report, torch::Device device) {
  std::vector<double> residuals;
  for (const auto& sample : report.samples) residuals.push_back(sample.relative);
  return torch::tensor(residuals, torch::kFloat64).to(device);
}

}  // namespace

struct ReasoningTask::Parts {
  ReasoningConfig config;
  torch::Device device;
  PuzzleSet training;
  Batch validation;
  Puzzle example;  // of the validation set
  models::Reasoner network;
  std::unique_ptr<PuzzleSlots> slots;  // of the training; none before there are batches

  /// From one of the starts that belong to a place in the validation set.
  models::ReasonerOutput solve(const torch::Tensor& questions, const EquilibriumPlan& how,
                               int64_t place) {
    return network->forward(questions, numbered_start(network, questions, config.seed, place), how);
  }

  void add_to(PuzzleTally& tally, const Batch& batch, const EquilibriumPlan& how, int64_t begin) {
    const auto& questions = batch.tensors[0];
    const auto& answers = batch.tensors[1];
    torch::Tensor logits, residuals;
    for (int64_t start = 0; start < config.reasoning.breadth; ++start) {
      auto output = solve(questions, how, begin * config.reasoning.breadth + start);
      const auto found = output.logits.to(torch::kFloat32);
      const auto settles = residuals_of(output.equilibrium.report, device);
      tally.sums[PuzzleTally::kEvaluations] +=
          static_cast<double>(output.equilibrium.report.evaluations);
      ++tally.sums[PuzzleTally::kSolves];
      tally.reports.push_back(std::move(output.equilibrium.report));
      if (start == 0) {
        logits = found;
        residuals = settles;
        tally.sums[PuzzleTally::kExactFirst] += exact(found, answers).sum().item<double>();
        continue;
      }
      const auto better = settles < residuals;
      logits = torch::where(better.view({-1, 1, 1}), found, logits);
      residuals = torch::where(better, settles, residuals);
    }
    tally.sums[PuzzleTally::kPuzzles] += static_cast<double>(questions.size(0));
    tally.sums[PuzzleTally::kExact] += exact(logits, answers).sum().item<double>();
    tally.sums[PuzzleTally::kCells] +=
        logits.argmax(-1).eq(answers).to(torch::kFloat64).mean(1).sum().item<double>();
    tally.sums[PuzzleTally::kLoss] +=
        cell_losses(logits, answers, config.reasoning.loss).mean(1).sum().item<double>();
  }

  /// Which puzzles are right in every cell.
  static torch::Tensor exact(const torch::Tensor& logits, const torch::Tensor& answers) {
    return logits.argmax(-1).eq(answers).all(1);
  }
};

ReasoningTask::ReasoningTask(const ReasoningConfig& config, torch::Device device) {
  const auto& data = config.data;
  const std::filesystem::path folder(data.path);
  auto training = first_puzzles(folder / "train.csv", data.train_puzzles);
  const auto validation = first_puzzles(folder / "test.csv", data.valid_puzzles);
  require<UsageError>(training.shape == validation.shape,
                      "the puzzles of train.csv and test.csv in {} are of different shapes",
                      data.path);
  const auto network = make_reasoner(config, training.shape, device);
  parts_ = std::make_unique<Parts>(Parts{.config = config,
                                         .device = device,
                                         .training = std::move(training),
                                         .validation = stacked(validation).to(device),
                                         .example = validation.puzzles.front(),
                                         .network = network,
                                         .slots = nullptr});
}

ReasoningTask::~ReasoningTask() = default;

torch::nn::Module& ReasoningTask::model() {
  return *parts_->network;
}

std::shared_ptr<const BatchSource> ReasoningTask::training_batches(const Shard& shard,
                                                                   OnUnreadable on_unreadable) {
  const auto& plan = parts_->config.reasoning;
  parts_->slots = std::make_unique<PuzzleSlots>(shard, plan.segments, plan.exploration);
  auto dataset = std::make_shared<PuzzleDataset>(parts_->training, parts_->config.data.augment);
  return std::make_shared<DatasetBatches>(std::move(dataset), shard, on_unreadable);
}

TaskPass ReasoningTask::forward(const Batch& batch, const EquilibriumPlan& how) {
  auto& network = parts_->network;
  const auto& plan = parts_->config.reasoning;
  const auto& rows = parts_->slots->next(
      batch, [&network](const torch::Tensor& tokens) { return network->start_of(tokens); });
  auto output = network->forward(rows.questions, rows.state, how);
  const auto type = storage_type(parts_->config.precision);
  const auto logits = output.logits.to(type);
  const auto settled = output.settled.to(type);
  const auto right = Parts::exact(logits.detach(), rows.answers).to(type);
  auto loss = cell_losses(logits, rows.answers, plan.loss).mean();
  if (plan.settled_weight > 0) {
    loss = loss + plan.settled_weight *
                      torch::nn::functional::binary_cross_entropy_with_logits(settled, right);
  }
  parts_->slots->remember(output.equilibrium.state, settled, loss);
  return {.loss = std::move(loss), .equilibria = {std::move(output.equilibrium)}};
}

std::map<std::string, torch::Tensor> ReasoningTask::carried(World& world) {
  return parts_->slots->gather(world);
}

void ReasoningTask::carry_on(int64_t step, const std::map<std::string, torch::Tensor>& carried) {
  parts_->slots->restore(step, carried, parts_->device);
}

Metrics ReasoningTask::evaluate(const EquilibriumPlan& how, World& world) {
  const auto puzzles = parts_->validation.size();
  const auto size = std::min(parts_->config.train.batch_size, puzzles);
  const auto solved = solved_with(how);
  PuzzleTally tally;
  for (int64_t begin = world.rank() * size; begin < puzzles; begin += world.size() * size) {
    parts_->add_to(tally, rows_of(parts_->validation, begin, std::min(size, puzzles - begin)),
                   solved, begin);
  }
  sum_over_ranks(tally.sums, world, parts_->device);
  const auto mean = [&tally](PuzzleTally::Name name) {
    return tally.sums[name] / tally.sums[PuzzleTally::kPuzzles];
  };
  Metrics metrics{{"loss", mean(PuzzleTally::kLoss)},
                  {"exact", 100 * mean(PuzzleTally::kExact)},
                  {"cells", 100 * mean(PuzzleTally::kCells)}};
  if (parts_->config.reasoning.breadth > 1) {
    metrics.emplace_back("exact_first", 100 * mean(PuzzleTally::kExactFirst));
  }
  metrics.emplace_back("nfe_forward",
                       tally.sums[PuzzleTally::kEvaluations] / tally.sums[PuzzleTally::kSolves]);
  append(metrics, residual_metrics(tally.reports));
  return metrics;
}

Metrics ReasoningTask::stability(const EquilibriumPlan& how) {
  const auto some =
      rows_of(parts_->validation, 0, std::min(parts_->validation.size(), kStabilitySamples));
  const auto solved = solved_with(how);
  return stability_metrics(model(), parts_->config.seed, 1, solved.options().forward, [&](int64_t) {
    std::vector<Equilibrated> equilibria;
    equilibria.push_back(parts_->solve(some.tensors[0], solved, 0).equilibrium);
    return equilibria;
  });
}

Metrics ReasoningTask::closing() {
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(parts_->config.precision, parts_->device);
  const auto& shape = parts_->training.shape;
  const auto& puzzle = parts_->example;
  const auto followed =
      follow(parts_->network, puzzle.question, solved_with(evaluation_options(parts_->config)),
             parts_->config.seed, 0);
  std::string way;
  for (const auto& grid : followed.way) {
    if (!way.empty()) way += ' ';
    way += line_of(shape, grid);
  }
  return {{"puzzle_question", line_of(shape, puzzle.question)},
          {"puzzle_answer", line_of(shape, puzzle.answer)},
          {"puzzle_way", way}};
}

int64_t ReasoningTask::validation_samples() const {
  return parts_->validation.size();
}

std::string ReasoningTask::sample_form() const {
  return mark_of(parts_->training.shape);
}

Experiment experiment_from(const ReasoningConfig& config) {
  return make_experiment<ReasoningTask>("reasoning", config);
}

}  // namespace deq::lab
