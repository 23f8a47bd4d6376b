#include "models/transformer/tensor_parallel.h"

#include <gtest/gtest.h>

#include "core/require.h"
#include "core/rng.h"
#include "deq/lab/tasks/world_parallel.h"
#include "deq/lab/train/optimiser.h"
#include "deq/models/transformer/gpt2.h"
#include "deq/models/transformer/gpt2_parts.h"
#include "distributed/ranks.h"
#include "lab/runs/model_state.h"
#include "models/gpt2_small.h"
#include "support/maps.h"

// A GPT-2 whose layers several processes share, against one process with all of it. Every rank
// computes both.

namespace deq::lab {
namespace {

using models::GPT2;
using models::NamedTensors;
using test::expect_success;
using test::relative_difference;
using test::Scenario;

/// Counts the sums that a model asks for.
class CountingGroup final : public models::TensorParallel {
 public:
  explicit CountingGroup(std::shared_ptr<World> world) : all_(std::move(world)) {}
  int64_t rank() const override { return all_.rank(); }
  int64_t size() const override { return all_.size(); }
  void sum(const torch::Tensor& tensor) override {
    ++sums;
    all_.sum(tensor);
  }
  int64_t sums = 0;

 private:
  WorldParallel all_;
};

torch::Tensor words(int64_t length, uint64_t stream) {
  return torch::randint(19, {3, length}, random_stream(7, stream), torch::kInt64);
}

GPT2 made(const models::Gpt2Options& options, torch::ScalarType type,
          std::shared_ptr<models::TensorParallel> group = {}) {
  GPT2 model(options, random_stream(7, 0), std::move(group));
  move_model(*model, torch::kCPU, type);
  return model;
}

NamedTensors gradients(const GPT2& model) {
  NamedTensors named;
  for (const auto& item : model->named_parameters()) named[item.key()] = item.value().grad();
  return named;
}

void require_close(const torch::Tensor& found, const torch::Tensor& expected, double bound,
                   const std::string& what) {
  require(found.sizes() == expected.sizes(), "{} has shape {}, not {}", what, found.sizes(),
          expected.sizes());
  const auto difference = (found - expected).norm().item<double>();
  const auto scale = expected.norm().item<double>();
  require(difference <= bound * std::max(scale, 1e-3), "{} is off by {:g} of {:g}", what,
          difference, scale);
}

void require_close(const NamedTensors& found, const NamedTensors& expected, double bound,
                   const std::string& what) {
  require(found.size() == expected.size(), "{}: {} tensors, not {}", what, found.size(),
          expected.size());
  for (const auto& [name, tensor] : expected) {
    require_close(found.at(name), tensor, bound, what + " " + name);
  }
}

/// In parts and whole, Adam goes the same way. With its usual eps it would take the rounding that
/// is all there is of some gradients, as those of the keys' biases, for gradients; with one as
/// large as the rate, rounding stays as small in the weights.
void trains_as_one(const std::shared_ptr<World>& world, const models::Gpt2Options& options,
                   torch::ScalarType type, double bound) {
  constexpr double kRate = 1e-2;
  const auto group = std::make_shared<CountingGroup>(world);
  auto whole = made(options, type), parts = made(options, type, group);
  require_close(join_gpt2(model_tensors(*parts), *group), model_tensors(*whole), 0, "start");
  Optimiser of_whole(Adam{.eps = kRate}, trainable(*whole));
  Optimiser of_parts(Adam{.eps = kRate}, trainable(*parts));
  for (uint64_t step = 0; step < 6; ++step) {
    const auto text = words(5, 2 * step + 1), targets = words(5, 2 * step + 2);
    const models::Gpt2Memory memory{.capacity = 3, .tokens = words(3, 100 + step)};
    const auto expected = whole->forward(text, targets, memory);
    group->sums = 0;
    const auto found = parts->forward(text, targets, memory);
    require(group->sums == 2 * options.layers, "{} sums forward", group->sums);
    require_close(found.nll, expected.nll, bound, "cost");
    require_close(parts->log_probabilities(found.reading.hidden),
                  whole->log_probabilities(expected.reading.hidden), bound, "log p");
    expected.nll.mean().backward();
    found.nll.mean().backward();
    require(group->sums == 4 * options.layers, "{} sums both ways", group->sums);
    require_close(join_gpt2(gradients(parts), *group), gradients(whole), bound, "gradient");
    of_whole.step(kRate);
    of_parts.step(kRate);
    of_whole.zero_grad();
    of_parts.zero_grad();
  }
  require_close(join_gpt2(model_tensors(*parts), *group), model_tensors(*whole), bound, "weights");
  require_close(join_gpt2(of_parts.state(), *group), of_whole.state(), bound, "Adam's");
  // And what one process has trained goes on in parts.
  auto cut = made(options, type, group);
  restore_tensors(model_tensors(*cut), cut_gpt2(model_tensors(*whole), part_of(group.get())), "it");
  const auto text = words(6, 50);
  require_close(cut->read(text, {}).hidden, whole->read(text, {}).hidden, bound, "after a cut");
}

const Scenario kDouble("gpt2-float64", [](const auto& world) {
  trains_as_one(world, test::small_gpt2(), torch::kFloat64, 1e-10);
  trains_as_one(world, test::small_clustered_gpt2(3), torch::kFloat64, 1e-10);
});

// A hundred roundings of 6e-8: products of up to 20 terms, summed in another order in each of two
// layers, there and back.
const Scenario kSingle("gpt2-float32", [](const auto& world) {
  trains_as_one(world, test::small_gpt2(), torch::kFloat32, 6e-6);
});

/// Two heads that do the same and whose results cancel: only masks of their own are seen.
const Scenario kMasks("gpt2-masks", [](const auto& world) {
  auto options = test::small_gpt2(1);
  options.heads = 2;
  options.attention_dropout = 0.5;
  auto model = made(options, torch::kFloat64, std::make_shared<WorldParallel>(world));
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    if (name.find(".qkv.") != std::string::npos || name.ends_with("attention_out.weight")) {
      world->broadcast(item.value());
    }
    if (name.ends_with("attention_out.weight") && world->rank() == 1) item.value().neg_();
  }
  torch::manual_seed(3);
  const auto text = words(6, 1);
  const auto dropped = model->read(text, {}).hidden;
  const auto next = torch::rand({4});
  model->eval();
  const auto undropped = model->read(text, {}).hidden;
  require(!dropped.allclose(undropped), "both heads have dropped the same");
  auto firsts = dropped.clone(), nexts = next.clone();
  world->broadcast(firsts);
  world->broadcast(nexts);
  require(firsts.equal(dropped), "rank {} has another result", world->rank());
  require(nexts.equal(next), "rank {} draws another number afterwards", world->rank());
});

/// What is dropped of what all ranks share is the same, so results are, with gradients too.
const Scenario kSharedMasks("gpt2-shared-masks", [](const auto& world) {
  auto options = test::small_gpt2(2);
  options.dropout = options.attention_dropout = 0.3;
  auto model = made(options, torch::kFloat64, std::make_shared<WorldParallel>(world));
  torch::manual_seed(3);
  const auto nll = model->forward(words(6, 1), words(6, 2), {}).nll;
  nll.mean().backward();
  const auto own = gradients(model);
  for (const auto& [name, gradient] : own) {
    if (models::gpt2_in_parts(name, gradient)) continue;
    const auto first = gradient.clone();
    world->broadcast(first);
    require_close(gradient, first, 1e-12, "gradient " + name);
  }
});

const Scenario kNoise("parts-noise", [](const auto& world) {
  const WorldParallel group(world);
  torch::manual_seed(5);
  torch::rand({3});
  const auto expected = torch::rand({3});
  torch::manual_seed(5);
  torch::rand({3});
  torch::Tensor own;
  {
    const models::PartsNoise noise(torch::kCPU, 11, group);
    own = torch::rand({3});
  }
  require(torch::rand({3}).equal(expected), "the generator does not go on where it was");
  torch::manual_seed(11 + world->rank());
  require(torch::rand({3}).equal(own), "not the numbers of key and rank");
});

const Scenario kMisuse("gpt2-misuse", [](const auto& world) {
  auto options = test::small_gpt2();
  options.heads = 3;
  made(options, torch::kFloat64, std::make_shared<WorldParallel>(world));
});

TEST(TensorParallel, TrainsAsOneProcessDoes) {
  expect_success(2, "gpt2-float64");
  expect_success(4, "gpt2-float64");
}

TEST(TensorParallel, TrainsAsOneProcessDoesInFloat32) {
  expect_success(2, "gpt2-float32");
  expect_success(4, "gpt2-float32");
}

TEST(TensorParallel, DropsWhatIsSharedAlikeAndTheRestApart) {
  expect_success(2, "gpt2-masks");
  expect_success(4, "gpt2-shared-masks");
  expect_success(2, "parts-noise");
}

TEST(TensorParallel, SaysWhatCannotBeShared) {
  for (const auto& outcome : test::run_ranks(2, "gpt2-misuse")) {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.output.find("heads = 3, must be a multiple of the 2 processes"),
              std::string::npos)
        << outcome.output;
  }
}

}  // namespace
}  // namespace deq::lab
