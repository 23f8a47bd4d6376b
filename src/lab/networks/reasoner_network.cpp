#include "lab/networks/reasoner_network.h"

#include "core/require.h"
#include "deq/core/precision.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/puzzles/puzzle_dataset.h"
#include "lab/base/misuse.h"
#include "lab/base/model_noise.h"
#include "lab/base/random_streams.h"
#include "lab/runs/model_state.h"

namespace deq::lab {
namespace {

PuzzleGrid grid_of(const torch::Tensor& logits) {
  const auto contents = logits.argmax(-1).flatten().to(torch::kCPU).contiguous();
  const auto* first = contents.const_data_ptr<int64_t>();
  PuzzleGrid grid;
  for (int64_t i = 0; i < contents.numel(); ++i) grid.push_back(static_cast<uint8_t>(first[i]));
  return grid;
}

}  // namespace

models::Reasoner make_reasoner(const ReasoningConfig& config, const PuzzleShape& shape,
                               torch::Device device) {
  const auto breadth = config.reasoning.breadth;
  require<UsageError>(breadth == 1 || config.model.start == models::ReasonerStart::Random,
                      "reasoning.breadth = {} needs model.start = \"random\"", breadth);
  auto options = config.model;
  options.tokens = cells_of(shape);
  options.vocabulary = vocabulary_of(shape);
  auto network = refusals_as_misuse([&] {
    return models::Reasoner(options, random_stream(config.seed, RandomStream::ReasonerWeights));
  });
  move_model(*network, device, storage_type(config.precision));
  return network;
}

EquilibriumPlan solved_with(const EquilibriumPlan& how) {
  auto options = how.options();
  const auto& gradient = options.gradient;
  const bool replaces_solver =
      std::holds_alternative<Unrolled>(gradient) || std::holds_alternative<Reversible>(gradient);
  if (replaces_solver) options.gradient = JacobianFree{};
  return options;
}

State numbered_start(models::Reasoner& network, const torch::Tensor& questions, int64_t seed,
                     int64_t number) {
  seed_model_noise(questions.device(), random_key(seed, RandomStream::ReasonerStarts, number));
  return network->start_of(questions);
}

FollowedPuzzle follow(models::Reasoner& network, const PuzzleGrid& question,
                      const EquilibriumPlan& how, int64_t seed, int64_t number) {
  FollowedPuzzle followed;
  const auto& options = network->options();
  const auto answer_of = [&](const torch::Tensor& slab) {  // it comes first in the state
    const auto answer = slab.narrow(1, 0, options.tokens * options.width);
    return network->read(answer.view({1, options.tokens, options.width}));
  };
  const auto device = network->parameters().front().device();
  const auto tokens = tokens_of(question).unsqueeze(0).to(device);
  const auto output = network->forward(tokens, numbered_start(network, tokens, seed, number), how,
                                       [&](const Progress& progress) {
                                         followed.way.push_back(grid_of(answer_of(progress.z)));
                                         return true;
                                       });
  followed.answer = grid_of(output.logits);
  followed.solve = output.equilibrium.report.samples.at(0);
  return followed;
}

}  // namespace deq::lab
