#include "deq/models/transformer/looped.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "gradient_checks.h"
#include "models/transformer/looped_parts.h"
#include "plain_transformer.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::PlainTransformer;
using test::relative_difference;

LoopedTransformerOptions small_looped(int64_t core = 2) {
  LoopedTransformerOptions options;
  options.vocabulary = 19;
  options.cutoffs = {6, 11};
  options.prelude = 1;
  options.core = core;
  options.coda = 1;
  options.d_model = 12;
  options.d_embed = 10;
  options.heads = 2;
  options.d_head = 5;
  options.d_inner = 9;
  options.tie_projections = {false, true, true};
  options.dropout = 0;
  options.init_std = 0.3;
  return options;
}

EquilibriumOptions loops(int64_t steps, int64_t backpropagated = 0) {
  return {.gradient = Unrolled{.steps = steps, .backpropagated = backpropagated}};
}

const EquilibriumOptions kLoopedTight{
    .forward = Broyden{.memory = 200, .tol = {.rtol = 1e-13}, .max_evals = 400},
    .gradient =
        Implicit{.solver = Broyden{.memory = 200, .tol = {.rtol = 1e-13}, .max_evals = 400}}};

class LoopedTest : public test::Seeded {
 protected:
  template <class Holder>
  Holder prepared(Holder module) {
    module->to(torch::kFloat64);
    module->eval();
    const torch::NoGradGuard no_grad;
    for (auto& item : module->named_parameters()) {  // biases start at zero
      if (item.key().ends_with("bias")) item.value().normal_(0, 0.3, generator_);
    }
    return module;
  }

  LoopedTransformer make(const LoopedTransformerOptions& options) {
    return prepared(LoopedTransformer(options, generator_));
  }

  /// One whose loop has an equilibrium that every solve finds: it depends little on the state.
  LoopedTransformer make_contracting(const LoopedTransformerOptions& options) {
    auto model = make(options);
    const torch::NoGradGuard no_grad;
    model->named_parameters()["core.adapter.weight"].narrow(1, 0, options.d_model).mul_(0.1);
    return model;
  }

  torch::Tensor draw(c10::IntArrayRef shape) { return torch::randn(shape, generator_, f64()); }
  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(19, {batch, length}, generator_, torch::kInt64);
  }

  Inputs inputs(const LoopedTransformerOptions& options, int64_t length, int64_t memory) {
    PositionalEncoding positions(options.d_model);
    positions->to(torch::kFloat64);
    Inputs inputs{draw({3, length, options.d_model}), positions(memory + length)};
    for (int64_t i = 0; memory > 0 && i < options.core; ++i) {
      inputs.push_back(draw({3, memory, options.d_model}));
    }
    return inputs;
  }
};

/// One loop in plain torch, from the cell's parameters by name.
torch::Tensor plain_loop(const LoopedTransformerOptions& options, LoopedCell& cell,
                         const torch::Tensor& s, const Inputs& inputs) {
  const auto parameters = cell->named_parameters();
  auto h = torch::cat({s, inputs[0]}, -1).matmul(parameters["adapter.weight"].t()) +
           parameters["adapter.bias"];
  h = PlainTransformer::norm(h);
  const auto width = 3 * options.heads * options.d_head;
  const auto none = [&](const torch::Tensor& x) {
    return torch::zeros({x.size(0), x.size(1), width}, x.options());
  };
  for (int64_t i = 0; i < options.core; ++i) {
    const PlainTransformer layer{core_layer(options), parameters,
                                 "layers." + std::to_string(i) + "."};
    Inputs seen{none(s), inputs[1]};
    if (inputs.size() > 2) {
      const auto& memory = inputs[static_cast<size_t>(2 + i)];
      seen.insert(seen.end(), {memory, none(memory)});
    }
    h = layer.step(h, seen, Context(kTransformerSlots));
  }
  return h;
}

TEST_F(LoopedTest, ALoopIsItsFormula) {
  for (const int64_t memory : {0, 4}) {
    for (const int64_t horizon : {0, 3}) {
      auto options = small_looped();
      options.horizon = horizon;
      auto cell = prepared(LoopedCell(options, generator_));
      const auto given = inputs(options, 5, memory);
      const auto s = draw({3, 5, options.d_model}).requires_grad_();
      const auto v = draw(s.sizes());
      const auto f = cell->step({s}, cell->prepare(given))[0];
      const auto expected = plain_loop(options, cell, s, given);
      EXPECT_LT(relative_difference(f, expected), 1e-13);
      auto parameters = cell->named_parameters();
      parameters.insert("s", s);
      const auto own = torch::autograd::grad({(v * f).sum()}, parameters.values());
      const auto wanted = torch::autograd::grad({(v * expected).sum()}, parameters.values());
      for (size_t i = 0; i < own.size(); ++i) {
        EXPECT_LT((own[i] - wanted[i]).abs().max().item<double>(),
                  1e-11 * std::max(1.0, wanted[i].abs().max().item<double>()))
            << parameters.keys()[i];
      }
    }
  }
}

TEST_F(LoopedTest, StatesStayOfTheirSizeHoweverLargeTheStart) {
  const auto options = small_looped();
  auto cell = prepared(LoopedCell(options, generator_));
  const auto given = inputs(options, 5, 0);
  const auto context = cell->prepare(given);
  for (const double size : {0.0, 1.0, 1e6}) {
    State s{size * draw({3, 5, options.d_model})};
    for (int loop = 0; loop < 50; ++loop) s = cell->step(s, context);
    const auto spread = s[0].square().mean(-1).sqrt();
    EXPECT_LT((spread - 1).abs().max().item<double>(), 1e-2) << size;
  }
}

// Looping is nothing else than a deep network whose layers share their weights.
TEST_F(LoopedTest, LoopsAreAStackOfLayersWithTheSameWeights) {
  const auto options = small_looped();
  auto model = make(options);
  auto cell = model->cell();
  const auto given = inputs(options, 5, 4);
  for (const int64_t depth : {1, 2, 5}) {
    Equilibrium layer(cell, loops(depth));
    const auto looped = layer->forward(given).z();
    auto s = cell->initial_state(given).front();
    for (int64_t k = 0; k < depth; ++k) s = plain_loop(options, cell, s, given);
    EXPECT_LT(relative_difference(looped, s), 1e-12);
    const auto v = draw(s.sizes());
    const auto found = torch::autograd::grad({(v * looped).sum()}, cell->parameters());
    const auto wanted = torch::autograd::grad({(v * s).sum()}, cell->parameters());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LT((found[i] - wanted[i]).norm().item<double>(),
                1e-10 * std::max(1.0, wanted[i].norm().item<double>()))
          << cell->named_parameters().keys()[i];
    }
  }
}

TEST_F(LoopedTest, GradientsAreThoseOfDifferences) {
  for (const bool pre_ln : {false, true}) {
    auto options = small_looped();
    options.pre_ln = pre_ln;
    auto model = make(options);
    const auto memory = model->read(tokens(2, 4), {.capacity = 4}, loops(3)).memory;
    const auto text = tokens(2, 5), targets = tokens(2, 5);
    test::expect_gradients_of_differences(
        *model, [&] { return model->forward(text, targets, memory, loops(3)).nll.mean(); });
  }
}

TEST_F(LoopedTest, EveryOtherGradientIsThatOfManyLoops) {
  auto model = make_contracting(small_looped());
  const auto text = tokens(2, 5), targets = tokens(2, 5);
  test::expect_gradients_of_unrolled(
      *model,
      [&](const EquilibriumOptions& how) {
        return model->forward(text, targets, {}, how).nll.mean();
      },
      kLoopedTight, 60);
}

TEST_F(LoopedTest, OnlyTheLastLoopsAreBackpropagatedThrough) {
  const auto options = small_looped();
  auto cell = make(options)->cell();
  const auto given = inputs(options, 4, 0);
  auto s = cell->initial_state(given);
  {
    const torch::NoGradGuard no_grad;
    const auto context = cell->prepare(given);
    for (int k = 0; k < 4; ++k) s = cell->step(s, context);
  }
  const auto v = draw(s[0].sizes());
  const auto gradients = [&](const EquilibriumOptions& how, const State& start) {
    const auto z = Equilibrium(cell, how)->forward(given, {.start = start}).z();
    return torch::autograd::grad({(v * z).sum()}, cell->parameters());
  };
  const auto all = gradients(loops(6, 2), cell->initial_state(given)),
             last = gradients(loops(2), s);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_LT(relative_difference(all[i], last[i]), 1e-12);
  }
}

TEST_F(LoopedTest, AtItsEquilibriumItReadsATextInPartsAsAtOnce) {
  for (const int64_t core : {1, 3}) {
    auto model = make_contracting(small_looped(core));
    const auto text = tokens(2, 9);
    const torch::NoGradGuard no_grad;
    const auto whole = model->read(text, {.capacity = 20}, kLoopedTight);
    EXPECT_TRUE(whole.equilibrium.report.converged()) << whole.equilibrium.report.brief();
    TransformerXlMemory memory{.capacity = 20};
    std::vector<torch::Tensor> parts;
    for (const auto& part : text.split_with_sizes({4, 1, 4}, 1)) {
      auto reading = model->read(part, memory, kLoopedTight);
      parts.push_back(reading.hidden);
      memory = reading.memory;
    }
    EXPECT_LT(relative_difference(torch::cat(parts, 1), whole.hidden), 1e-10);
    ASSERT_EQ(memory.layers.size(), static_cast<size_t>(core + 2));
    for (size_t i = 0; i < memory.layers.size(); ++i) {
      EXPECT_LT(relative_difference(memory.layers[i], whole.memory.layers[i]), 1e-10) << i;
    }
    // A memory is used where nothing new is remembered, too.
    const auto more = tokens(2, 3);
    const auto used = model->read(more, {.capacity = 0, .layers = memory.layers}, kLoopedTight);
    EXPECT_TRUE(used.memory.layers.empty());
    EXPECT_LT(relative_difference(used.hidden, model->read(more, memory, kLoopedTight).hidden),
              1e-12);
  }
}

TEST_F(LoopedTest, ALaterWordChangesNoEarlierCost) {
  auto model = make(small_looped());
  auto text = tokens(2, 6);
  const auto targets = tokens(2, 6);
  const auto before = model->forward(text, targets, {}, loops(4)).nll;
  text.select(1, 4).add_(1).remainder_(19);
  const auto after = model->forward(text, targets, {}, loops(4)).nll;
  EXPECT_LT(relative_difference(after.slice(1, 0, 4), before.slice(1, 0, 4)), 1e-13);
  EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
}

TEST_F(LoopedTest, TrainingStartsFromNoiseThatFollowsFromTheSeed) {
  auto options = small_looped();
  options.start_std = 2;
  auto cell = prepared(LoopedCell(options, generator_));
  PositionalEncoding positions(options.d_model);
  positions->to(torch::kFloat64);
  const Inputs many{draw({50, 40, options.d_model}), positions(40)};
  EXPECT_TRUE(cell->initial_state(many)[0].equal(cell->initial_state(many)[0]));
  EXPECT_FALSE(cell->start_may_change());
  const auto fixed = cell->initial_state(many)[0];
  EXPECT_TRUE(fixed.equal(fixed[0][0].expand(fixed.sizes())));
  EXPECT_GT(fixed.abs().max().item<double>(), 0.1);
  cell->train();
  torch::manual_seed(5);
  const auto noise = cell->initial_state(many)[0];
  EXPECT_NEAR(noise.std().item<double>(), 2, 0.05);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.1);
  EXPECT_FALSE(noise.equal(cell->initial_state(many)[0]));
  EXPECT_TRUE(cell->start_may_change());
  torch::manual_seed(5);
  EXPECT_TRUE(noise.equal(cell->initial_state(many)[0]));
}

TEST_F(LoopedTest, ThePenaltyIsThatOfTheDenseJacobian) {
  auto model = make(small_looped());
  const auto text = tokens(1, 4);
  const auto reading = model->read(text, {}, loops(3));
  const auto& at = reading.equilibrium.linearization();
  auto cell = model->cell();
  // Column by column, by differences.
  const torch::NoGradGuard no_grad;
  const auto s = reading.equilibrium.z().detach();
  const auto f = [&](const torch::Tensor& z) {
    return plain_loop(model->options(), cell, z, model->cell_inputs(text, {}));
  };
  double squares = 0;
  const double spacing = 1e-6;
  for (int64_t i = 0; i < s.numel(); ++i) {
    const auto unit = torch::zeros_like(s);
    unit.view(-1)[i] = spacing;
    squares += ((f(s + unit) - f(s - unit)) / (2 * spacing)).square().sum().item<double>();
  }
  const auto estimate = frobenius_squared(at, Hutchinson{.probes = 1000}, ProbeKey{.key = 3});
  EXPECT_NEAR(estimate.item<double>(), squares, 0.1 * squares);
}

/// Position by position, as one would do it by hand.
struct HandExits {
  torch::Tensor s;
  std::vector<int64_t> loops;
};

HandExits exits_by_hand(LoopedCell& cell, const Inputs& inputs, const LoopExits& exits) {
  auto s = cell->initial_state(inputs).front();
  const auto context = cell->prepare(inputs);
  const auto batch = s.size(0), length = s.size(1);
  std::vector<bool> left(static_cast<size_t>(batch * length), false);
  std::vector<int64_t> loops(left.size(), 0);
  for (int64_t loop = 0; loop < exits.loops; ++loop) {
    const auto next = cell->step({s}, context).front();
    auto after = s.clone();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t < length; ++t) {
        const auto place = static_cast<size_t>(b * length + t);
        if (left[place]) continue;
        double change = 0, size = 0;
        for (int64_t d = 0; d < s.size(2); ++d) {
          const double to = next[b][t][d].item<double>(), from = s[b][t][d].item<double>();
          change += (to - from) * (to - from);
          size += to * to;
          after[b][t][d] = to;
        }
        ++loops[place];
        left[place] = std::sqrt(change) <= exits.rtol * std::sqrt(size);
      }
    }
    s = after;
  }
  return {s, loops};
}

TEST_F(LoopedTest, WordsLeaveTheLoopWhenTheyHaveSettled) {
  auto options = small_looped();
  options.coda = 0;  // the hidden state is then the loop's
  auto model = make(options);
  auto cell = model->cell();
  const auto text = tokens(3, 8);
  const torch::NoGradGuard no_grad;
  const LoopExits exits{.loops = 7, .rtol = 0.1};
  const auto reading = model->read_with_exits(text, {}, exits);
  const auto expected = exits_by_hand(cell, model->cell_inputs(text, {}), exits);
  EXPECT_LT(relative_difference(reading.hidden, expected.s), 1e-13);
  EXPECT_TRUE(reading.loops.flatten().equal(torch::tensor(expected.loops)));
  // The test would be empty if all words left at once.
  EXPECT_LT(reading.loops.min().item<int64_t>(), reading.loops.max().item<int64_t>());
}

TEST_F(LoopedTest, ExitsAtNoOrAtAnyChangeAreAllLoopsOrOne) {
  auto model = make(small_looped());
  const torch::NoGradGuard no_grad;
  const auto memory = model->read(tokens(2, 4), {.capacity = 4}, loops(3)).memory;
  const auto text = tokens(2, 5);
  for (const auto& [rtol, depth] : {std::pair(0.0, 6), std::pair(1e9, 1)}) {
    const auto left = model->read_with_exits(text, memory, {.loops = 6, .rtol = rtol});
    const auto plain = model->read(text, memory, loops(depth));
    EXPECT_LT(relative_difference(left.hidden, plain.hidden), 1e-13);
    EXPECT_TRUE(left.loops.eq(depth).all().item<bool>());
    for (size_t i = 0; i < plain.memory.layers.size(); ++i) {
      EXPECT_LT(relative_difference(left.memory.layers[i], plain.memory.layers[i]), 1e-13);
    }
  }
}

TEST_F(LoopedTest, DropoutIsTheSameInEveryLoop) {
  auto options = small_looped();
  options.dropout = options.attention_dropout = 0.4;
  auto cell = prepared(LoopedCell(options, generator_));
  cell->train();
  const auto given = inputs(options, 4, 3);
  const State s{draw({3, 4, options.d_model})};
  const auto context = cell->prepare(given), other = cell->prepare(given);
  EXPECT_TRUE(cell->step(s, context)[0].equal(cell->step(s, context)[0]));
  EXPECT_FALSE(cell->step(s, context)[0].allclose(cell->step(s, other)[0]));
  cell->eval();
  const auto plain = plain_loop(options, cell, s[0], given);
  EXPECT_LT(relative_difference(cell->step(s, cell->prepare(given))[0], plain), 1e-13);
}

TEST_F(LoopedTest, SaysWhatIsWrong) {
  for (const auto& change : std::vector<std::function<void(LoopedTransformerOptions&)>>{
           [](auto& o) { o.core = 0; }, [](auto& o) { o.prelude = -1; },
           [](auto& o) { o.coda = -1; }, [](auto& o) { o.start_std = -1; },
           [](auto& o) { o.horizon = -1; }, [](auto& o) { o.cutoffs = {30}; }}) {
    auto options = small_looped();
    change(options);
    EXPECT_THROW(LoopedTransformer{options}, Error);
  }
  auto model = make(small_looped());
  const auto memory = model->read(tokens(3, 4), {.capacity = 4}, loops(2)).memory;
  EXPECT_THROW(model->read(tokens(2, 4), memory, loops(2)), Error);
  EXPECT_THROW(make(small_looped(3))->read(tokens(3, 4), memory, loops(2)), Error);
  EXPECT_THROW(model->read(tokens(2, 4), {.capacity = -1}, loops(2)), Error);
  EXPECT_THROW(model->read_with_exits(tokens(2, 4), {}, {.loops = 0}), Error);
  EXPECT_THROW(model->read_with_exits(tokens(2, 4), {}, {.rtol = -1}), Error);
  const auto options = small_looped();
  auto cell = model->cell();
  const auto good = inputs(options, 4, 3);
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] = bad[i].narrow(bad[i].dim() - 2, 0, 2);
    EXPECT_THROW(cell->prepare(bad), Error) << "input " << i;
  }
  EXPECT_THROW(cell->step({draw({3, 4, options.d_model})}, {good[0]}), Error);
}

}  // namespace
}  // namespace deq::models
