#include "replay_check.h"

#include <torch/nn/functional/loss.h>

#include "core/require.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/transformer/transformer.h"

namespace deq::lab::cli {
namespace {

constexpr int kSteps = 4;  // of which the first is evaluated

EquilibriumPlan checked_plan() {
  const Anderson solver{.tol = {.rtol = 0}, .max_evals = 6};
  return EquilibriumPlan(
      {.forward = solver, .gradient = Implicit{.solver = solver}, .replay = Replay::Checked});
}

void backpropagate(const torch::Tensor& loss, const Equilibrated& equilibrium) {
  (loss + jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{})).backward();
}

void train_checked(const torch::Device& device, torch::Dtype type) {
  const auto plan = checked_plan();
  models::MdeqClassifier images(models::MdeqOptions{
      .channels = {8, 16}, .dropout = 0.2, .head_channels = {4, 8}, .final_channels = 20});
  images->to(device, type);
  models::DeqTransformer text(models::TransformerOptions{.vocabulary = 100,
                                                         .cutoffs = {40},
                                                         .d_model = 32,
                                                         .d_embed = 32,
                                                         .heads = 2,
                                                         .d_head = 16,
                                                         .d_inner = 64,
                                                         .tie_projections = {false, true}});
  text->to(device, type);
  for (int step = 0; step < kSteps; ++step) {
    const auto output = images->forward(
        torch::randn({4, 3, 16, 16}, torch::TensorOptions(device).dtype(type)), plan);
    const auto labels = torch::arange(4, torch::TensorOptions(device).dtype(torch::kInt64));
    backpropagate(torch::nn::functional::cross_entropy(output.logits, labels), output.equilibrium);
    const auto words =
        torch::randint(100, {3, 9}, torch::TensorOptions(device).dtype(torch::kInt64));
    const auto read = text->forward(words.narrow(1, 0, 8), words.narrow(1, 1, 8), {}, plan);
    backpropagate(read.nll.mean(), read.reading.equilibrium);
  }
}

}  // namespace

std::string replay_outcome(const torch::Device& device, const RecordingCounts& before,
                           const RecordingCounts& after) {
  require(after.refused == before.refused,
          "the device {} refused to record {} of {} parts of a model, which are evaluated: {}",
          device.str(), after.refused - before.refused,
          after.refused - before.refused + after.made - before.made, after.why);
  if (after.made > before.made) return "as evaluated";
  require(!device.is_cuda(), "nothing was recorded on the device {}, so nothing was replayed",
          device.str());
  return "not used on the CPU";
}

std::string check_replays(const torch::Device& device, torch::Dtype type) {
  const auto before = recording_counts();
  train_checked(device, type);
  return replay_outcome(device, before, recording_counts());
}

}  // namespace deq::lab::cli
