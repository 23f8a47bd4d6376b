#include "lab/train/step_passes.h"

#include <torch/autograd.h>

#include <utility>

#include "deq/core/precision.h"
#include "deq/jacobian/gain.h"
#include "lab/base/model_noise.h"
#include "lab/base/random_streams.h"
#include "lab/train/start_penalties.h"

namespace deq::lab {
namespace {

Shard shard_of(const Recipe& recipe, const World& world) {
  return {.batch_size = recipe.train.batch_size,
          .rank = world.rank(),
          .ranks = world.size(),
          .parts = recipe.train.accumulation,
          .seed = random_key(recipe.seed, RandomStream::SampleOrder)};
}

torch::Tensor penalty_at(const Linearization& at, const JacobianConfig& jacobian,
                         const ProbeKey& key) {
  if (jacobian.power_steps == 0) return jacobian_penalty(at, jacobian.estimator, key);
  return spectral_penalty(at, {.steps = jacobian.power_steps, .start = jacobian.estimator}, key);
}

}  // namespace

StepPasses::StepPasses(Task& task, const Recipe& recipe, std::shared_ptr<World> world,
                       Optimiser& optimiser)
    : task_(task),
      recipe_(recipe),
      world_(std::move(world)),
      optimiser_(optimiser),
      device_(optimiser.parameters().front().device()),
      shard_(shard_of(recipe, *world_)),
      source_(task.training_batches(shard_, recipe.train.loader.unreadable)),
      loader_(source_, recipe.train.loader.threads),
      averager_(world_, optimiser.parameters()) {}

StepFigures StepPasses::run(int64_t step, const StepPlan& plan) {
  StepFigures figures;
  optimiser_.zero_grad();
  for (int64_t part = 0; part < shard_.parts; ++part) backpropagate(step, plan, part, figures);
  average_buffers();
  return figures;
}

void StepPasses::average_buffers() {
  if (world_->size() == 1) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> buffers, flat;
  for (const auto& buffer : task_.model().buffers()) {
    if (buffer.is_floating_point()) buffers.push_back(buffer);
  }
  if (buffers.empty()) return;
  for (const auto& buffer : buffers) flat.push_back(buffer.flatten().to(torch::kFloat64));
  const auto all = torch::cat(flat);
  world_->sum(all);
  int64_t begin = 0;
  for (const auto& buffer : buffers) {
    buffer.copy_(all.narrow(0, begin, buffer.numel()).view_as(buffer) / world_->size());
    begin += buffer.numel();
  }
}

void StepPasses::backpropagate(int64_t step, const StepPlan& plan, int64_t part,
                               StepFigures& figures) {
  seed_model(step, part);
  const double weight = 1.0 / static_cast<double>(shard_.parts);
  const auto batch = loader_.next().to(device_, storage_type(recipe_.precision));
  const TensorFloat32Scope products(recipe_.precision, device_);  // of backward too
  TaskPass pass;
  torch::Tensor loss, penalty;
  StartPenalties distances;
  {
    const PrecisionScope precision(recipe_.precision, device_);
    pass = task_.forward(batch, ready(plan.how));
    loss = pass.loss;
    if (plan.penalised && !pass.equilibria.empty()) {
      penalty = penalty_of(pass, step, part);
      loss = torch::add(loss, penalty, plan.gamma);
    }
    distances = start_penalties(pass, plan);
    if (distances.start.defined()) loss = torch::add(loss, distances.start, plan.start_penalty);
    if (distances.step.defined()) loss = torch::add(loss, distances.step, plan.step_penalty);
  }
  if (part + 1 == shard_.parts) averager_.expect_backward(loss);
  // Named inputs, so that the leaf of the linearisation gets no gradient, which nobody wants.
  torch::autograd::backward({shard_.parts == 1 ? loss : loss * weight}, {}, {}, false,
                            optimiser_.parameters());
  figures.add(pass, weight);
  figures[StepFigures::kLoss] += weight * loss.item<double>();
  figures[StepFigures::kTaskLoss] += weight * pass.loss.item<double>();
  if (penalty.defined()) {
    figures[StepFigures::kPenalty] += weight * penalty.item<double>();
    figures[StepFigures::kPenalised] += weight;
  }
  for (const auto& [name, distance] : {std::pair(StepFigures::kStartDistance, distances.start),
                                       std::pair(StepFigures::kStepDistance, distances.step)}) {
    if (distance.defined()) figures[name] += weight * distance.item<double>();
  }
  if (distances.start.defined() || distances.step.defined()) {
    figures[StepFigures::kStarted] += weight;
  }
  if (!plan.pretraining) figures[StepFigures::kSolved] += weight;
  figures[StepFigures::kUnreadable] += static_cast<double>(batch.skipped * world_->size());
  last_reports_.clear();
  for (auto& equilibrium : pass.equilibria) last_reports_.push_back(std::move(equilibrium.report));
}

/// Plans differ in their phase and budgets only, and keep workspaces worth reusing.
const EquilibriumPlan& StepPasses::ready(const EquilibriumOptions& how) {
  const auto* unrolled = std::get_if<Unrolled>(&how.gradient);
  const auto* adjoint = adjoint_solver(how.gradient);
  const std::tuple key(
      how.gradient.index(), max_evals(how.forward), adjoint != nullptr ? max_evals(*adjoint) : 0,
      unrolled != nullptr ? unrolled->steps : 0, unrolled != nullptr && unrolled->replayed);
  return ready_.try_emplace(key, how).first->second;
}

torch::Tensor StepPasses::penalty_of(const TaskPass& pass, int64_t step, int64_t part) const {
  torch::Tensor sum;
  for (size_t layer = 0; layer < pass.equilibria.size(); ++layer) {
    const ProbeKey key{.key = random_key(recipe_.seed, RandomStream::PenaltyProbes, step) + layer,
                       .first_sample = shard_.first_position(part)};
    const auto one = penalty_at(pass.equilibria[layer].linearization(), recipe_.jacobian, key);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

void StepPasses::seed_model(int64_t step, int64_t part) {
  seed_model_noise(device_, random_key(recipe_.seed, RandomStream::ModelNoise, step) +
                                static_cast<uint64_t>(part * world_->size() + world_->rank()));
}

}  // namespace deq::lab
