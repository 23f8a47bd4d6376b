#include "deq/models/recurrent/qrnn.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <string>

#include "deq/core/error.h"
#include "gradient_checks.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::relative_difference;

constexpr int64_t kWords = 19;

QrnnOptions small(int64_t layers, int64_t window = 2) {
  QrnnOptions options;
  options.vocabulary = kWords;
  options.cutoffs = {6, 11};
  options.layers = layers;
  options.d_embed = 10;
  options.d_hidden = 7;
  options.window = window;
  options.input_dropout = options.hidden_dropout = options.output_dropout = 0;
  options.init_std = 0.5;
  return options;
}

/// Every dropout and penalty.
QrnnOptions regularised() {
  auto options = small(3);
  options.embedding_dropout = 0.2;
  options.input_dropout = 0.3;
  options.hidden_dropout = 0.4;
  options.output_dropout = 0.5;
  options.weight_dropout = 0.25;
  options.activation_penalty = 2;
  options.slowness_penalty = 3;
  return options;
}

class QrnnTest : public test::Seeded {
 protected:
  AwdQrnn make(const QrnnOptions& options) {
    AwdQrnn model(options, generator_);
    model->to(torch::kFloat64);
    return model;
  }

  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(kWords, {batch, length}, generator_, torch::kInt64);
  }

  std::vector<torch::Tensor> in_parts(AwdQrnn& model, const torch::Tensor& text,
                                      QrnnMemory& memory) {
    std::vector<torch::Tensor> parts;
    for (const auto& part : text.split_with_sizes({4, 1, 4}, 1)) {
      auto reading = model->read(part, memory);
      parts.push_back(reading.hidden);
      memory = reading.memory;
    }
    return parts;
  }
};

/// The formula, position by position, from the parameters by name: one table for all words.
torch::Tensor plain_hidden(AwdQrnn& model, const torch::Tensor& text) {
  const auto parameters = model->named_parameters();
  const auto& options = model->options();
  auto x = parameters["word_emb.emb_layers.0.weight"].index_select(0, text.flatten());
  x = x.view({text.size(0), text.size(1), -1});
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const auto name = "layers." + std::to_string(layer) + ".";
    const auto &weight = parameters[name + "weight"], &bias = parameters[name + "bias"];
    const auto n = bias.size(0) / 3;
    auto c = torch::zeros({text.size(0), n}, x.options());
    std::vector<torch::Tensor> outputs;
    for (int64_t t = 0; t < text.size(1); ++t) {
      auto y = bias.expand({text.size(0), 3 * n});
      for (int64_t back = 0; back < (layer == 0 ? options.window : 1) && back <= t; ++back) {
        y = y + x.select(1, t - back).mm(weight.narrow(1, back * x.size(2), x.size(2)).t());
      }
      const auto gates = y.chunk(3, 1);
      const auto f = 1 / (1 + (-gates[1]).exp());
      c = f * c + (1 - f) * gates[0].tanh();
      outputs.push_back(c / (1 + (-gates[2]).exp()));
    }
    x = torch::stack(outputs, 1);
  }
  return x;
}

TEST_F(QrnnTest, IsTheFormula) {
  for (const auto& options : {small(1), small(3), small(2, 1), small(2, 4)}) {
    auto model = make(options);
    const auto text = tokens(3, 6);
    EXPECT_LT(relative_difference(model->read(text, {}).hidden, plain_hidden(model, text)), 1e-14);
  }
}

TEST_F(QrnnTest, ReadsATextInPartsAsAtOnce) {
  for (const auto& options : {small(1), small(3), small(2, 1), small(2, 4)}) {
    auto model = make(options);
    const auto text = tokens(2, 9);
    const auto whole = model->read(text, {});
    QrnnMemory memory;
    const auto parts = in_parts(model, text, memory);
    EXPECT_LT(relative_difference(torch::cat(parts, 1), whole.hidden), 1e-14);
    memory = QrnnMemory::of(memory.tensors(), options.layers);
    ASSERT_EQ(memory.states.size(), whole.memory.states.size());
    for (size_t i = 0; i < memory.states.size(); ++i) {
      EXPECT_LT(relative_difference(memory.states[i], whole.memory.states[i]), 1e-14);
      EXPECT_FALSE(memory.states[i].requires_grad());
    }
    EXPECT_EQ(memory.inputs.defined(), options.window > 1);
    if (memory.inputs.defined()) {
      EXPECT_TRUE(memory.inputs.equal(whole.memory.inputs));
      EXPECT_FALSE(memory.inputs.requires_grad());
    }
  }
}

TEST_F(QrnnTest, ALaterWordChangesNoEarlierCost) {
  auto model = make(small(2));
  auto text = tokens(2, 6);
  const auto targets = tokens(2, 6);
  const auto before = model->forward(text, targets, {}).nll;
  text.select(1, 4).add_(1).remainder_(kWords);
  const auto after = model->forward(text, targets, {}).nll;
  EXPECT_TRUE(after.slice(1, 0, 4).equal(before.slice(1, 0, 4)));
  EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
}

TEST_F(QrnnTest, CostsAreTheProbabilitiesOfTargets) {
  for (const int64_t div_val : {1, 2}) {
    auto options = small(2);
    options.div_val = div_val;
    if (div_val > 1) options.tie_projections = {false, true, true};
    auto model = make(options);
    const auto targets = tokens(2, 5);
    const auto output = model->forward(tokens(2, 5), targets, {});
    const auto log_p = model->log_probabilities(output.reading.hidden);
    EXPECT_LT(relative_difference(output.nll, -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)),
              1e-13);
    EXPECT_EQ(model->tied().size(), div_val == 1 ? 1U : 5U);
  }
}

TEST_F(QrnnTest, GradientsAreThoseOfFiniteDifferences) {
  auto options = regularised();
  options.embedding_dropout = options.input_dropout = options.hidden_dropout =
      options.output_dropout = options.weight_dropout = 0;  // the penalties are left
  auto model = make(options);
  const auto text = tokens(3, 5), targets = tokens(3, 5);
  const auto memory = model->read(tokens(3, 2), {}).memory;
  test::expect_gradients_of_differences(*model, [&] {
    const auto output = model->forward(text, targets, memory);
    return output.nll.mean() + output.penalty;
  });
}

TEST_F(QrnnTest, GradientsOfDroppedFeaturesAreThoseOfFiniteDifferences) {
  auto model = make(regularised());
  const auto text = tokens(3, 5), targets = tokens(3, 5);
  const auto memory = model->read(tokens(3, 2), {}).memory;
  const auto loss = [&](uint64_t seed) {
    torch::manual_seed(seed);  // the same masks at every evaluation
    const auto output = model->forward(text, targets, memory);
    return output.nll.mean() + output.penalty;
  };
  ASSERT_NE(loss(1).item<double>(), loss(2).item<double>()) << "nothing is dropped";
  for (const uint64_t seed : {1, 2, 3}) {
    test::expect_gradients_of_differences(*model, [&] { return loss(seed); });
  }
}

TEST_F(QrnnTest, PenaltiesAreThePublishedOnesInTrainingOnly) {
  auto options = small(2);
  options.output_dropout = 0.5;
  options.activation_penalty = 2;
  options.slowness_penalty = 3;
  auto model = make(options);
  const auto text = tokens(3, 5);
  const auto cost = [&] { return model->forward(text, text, {}); };
  const auto output = cost();
  const auto& dropped = output.reading.hidden;
  model->eval();
  const auto plain = model->read(text, {}).hidden;
  const auto changes = plain.slice(1, 1) - plain.slice(1, 0, 4);
  const auto expected = 2 * dropped.square().mean() + 3 * changes.square().mean();
  EXPECT_LT(relative_difference(output.penalty, expected), 1e-14);
  EXPECT_FALSE(cost().penalty.defined());
  model->train();
  const auto one_word = model->forward(text.narrow(1, 0, 1), text.narrow(1, 0, 1), {});
  EXPECT_LT(relative_difference(one_word.penalty, 2 * one_word.reading.hidden.square().mean()),
            1e-14);
  EXPECT_FALSE(make(small(2))->forward(text, text, {}).penalty.defined());
}

/// What dropout leaves of numbers, over the numbers: 0, or 1/(1 − rate) where they are kept.
void expect_mask(const torch::Tensor& found, const torch::Tensor& whole, double rate,
                 double tolerance = 1e-12) {
  const auto ratio = (found / whole).detach();
  const auto kept = ratio.ne(0);
  EXPECT_LT((ratio - kept.to(ratio.scalar_type()) / (1 - rate)).abs().max().item<double>(),
            tolerance);
  EXPECT_TRUE(kept.any().item<bool>());
  EXPECT_FALSE(kept.all().item<bool>());
}

/// Whether all of it is its part [0] of the dimension.
bool same_along(const torch::Tensor& mask, int64_t dimension) {
  return mask.equal(mask.narrow(dimension, 0, 1).expand_as(mask));
}

TEST_F(QrnnTest, FeaturesAreDroppedOfAllPositionsOfAStream) {
  const auto text = tokens(6, 8);
  const auto check = [&](double QrnnOptions::*rate, const auto& part) {
    auto options = small(1, /*window=*/9);  // all that enters the layer is remembered
    options.*rate = 0.4;
    auto model = make(options);
    const torch::Tensor dropped = part(model->read(text, {}));
    model->eval();
    const torch::Tensor whole = part(model->read(text, {}));
    expect_mask(dropped, whole, 0.4);
    EXPECT_TRUE(same_along(dropped.ne(0), 1));
    EXPECT_FALSE(same_along(dropped.ne(0), 0)) << "streams have masks of their own";
  };
  check(&QrnnOptions::input_dropout, [](const QrnnReading& r) { return r.memory.inputs; });
  check(&QrnnOptions::output_dropout, [](const QrnnReading& r) { return r.hidden; });
}

TEST_F(QrnnTest, BetweenLayersTheSame) {
  auto options = small(2, /*window=*/1);
  options.hidden_dropout = 0.5;
  auto model = make(options);
  {
    // The second layer hands on what it reads, from feature to feature: z is all but linear.
    const torch::NoGradGuard no_grad;
    auto parameters = model->named_parameters();
    auto& weight = parameters["layers.1.weight"].zero_();
    weight.narrow(0, 0, 7).copy_(1e-6 * torch::eye(7));
    auto& bias = parameters["layers.1.bias"].zero_();
    bias.narrow(0, 10, 10).fill_(-60);  // nothing is remembered
  }
  const auto text = tokens(5, 6);
  const auto dropped = model->read(text, {}).hidden.narrow(2, 0, 7);
  model->eval();
  const auto whole = model->read(text, {}).hidden.narrow(2, 0, 7);
  const auto kept = dropped.ne(0);
  EXPECT_LT(relative_difference(dropped, 2 * whole * kept), 1e-9);
  EXPECT_TRUE(same_along(kept, 1));
  EXPECT_FALSE(same_along(kept, 0));
}

TEST_F(QrnnTest, AWordIsDroppedWhereverItStands) {
  auto options = small(1, /*window=*/31);
  options.embedding_dropout = 0.4;
  auto model = make(options);
  const auto text = tokens(5, 30);
  const auto dropped = model->read(text, {}).memory.inputs;
  model->eval();
  const auto whole = model->read(text, {}).memory.inputs;
  expect_mask(dropped, whole, 0.4);
  const auto kept = dropped.ne(0);
  EXPECT_TRUE(same_along(kept, 2));
  for (int64_t word = 0; word < kWords; ++word) {
    const auto own = kept.select(2, 0).masked_select(text.eq(word));
    EXPECT_TRUE(own.numel() == 0 || own.equal(own[0].expand_as(own))) << word;
  }
}

TEST_F(QrnnTest, WeightsAreDroppedForAWholePass) {
  auto options = small(1, /*window=*/1);
  options.weight_dropout = 0.5;
  auto model = make(options);
  // Streams and positions that read the same word see the same weights.
  const auto text = torch::full({4, 1}, 7, torch::kInt64);
  const auto read = [&] { return model->read(text, {}).hidden.detach(); };
  const auto once = read();
  EXPECT_TRUE(same_along(once, 0));
  EXPECT_FALSE(read().equal(once));
  {
    const torch::NoGradGuard no_grad;
    auto parameters = model->named_parameters();
    parameters["word_emb.emb_layers.0.weight"].zero_().select(1, 0).fill_(1e-6);
    parameters["layers.0.bias"].zero_();
  }
  // z = tanh(w·1e-6), half of it forgotten, half of it shown.
  const auto weight = model->named_parameters()["layers.0.weight"].narrow(0, 0, 10).select(1, 0);
  const auto shown = [&] { return 4e6 * read()[0][0]; };
  expect_mask(shown(), weight, 0.5, 1e-5);
  model->eval();
  EXPECT_LT(relative_difference(shown(), weight), 1e-5);
}

TEST_F(QrnnTest, MasksFollowTorchsGeneratorAndAreDrawnInTrainingOnly) {
  auto model = make(regularised());
  const auto text = tokens(2, 5);
  const auto read = [&](uint64_t seed) {
    torch::manual_seed(seed);
    return model->read(text, {}).hidden;
  };
  EXPECT_TRUE(read(1).equal(read(1)));
  EXPECT_FALSE(read(1).equal(read(2)));
  model->eval();
  EXPECT_TRUE(read(1).equal(read(2)));
  EXPECT_LT(relative_difference(read(1), plain_hidden(model, text)), 1e-14);
}

TEST_F(QrnnTest, UnderAutocastStatesStayFloat32) {
  auto model = make(small(3));
  const auto text = tokens(3, 6);
  const auto exact = model->read(text, {});
  model->to(torch::kFloat32);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto rounded = model->read(text, {});
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  for (size_t i = 0; i < rounded.memory.states.size(); ++i) {
    EXPECT_EQ(rounded.memory.states[i].scalar_type(), torch::kFloat32);
    EXPECT_LT(relative_difference(rounded.memory.states[i], exact.memory.states[i]), 0.02);
  }
  EXPECT_LT(relative_difference(rounded.hidden, exact.hidden), 0.02);
  EXPECT_GT(relative_difference(rounded.hidden, exact.hidden), 1e-5);
}

// Counted by hand: words and their biases, three clusters' own vectors and biases, the layers.
TEST(QrnnSize, IsThePublishedOne) {
  for (const int64_t window : {1, 2}) {
    QrnnOptions options;
    options.window = window;
    const int64_t words = 267'735 * (400 + 1) + 3 * (400 + 1);
    const int64_t first = 3 * 2500 * (window * 400 + 1), between = 3 * 2500 * (2500 + 1),
                  last = 3 * 400 * (2500 + 1);
    int64_t parameters = 0;
    const AwdQrnn model(options);
    for (const auto& parameter : model->parameters()) parameters += parameter.numel();
    EXPECT_EQ(parameters, words + first + 2 * between + last);
    EXPECT_EQ((parameters + 50'000) / 100'000, window == 1 ? 1509 : 1539);  // in 0.1M
  }
}

TEST_F(QrnnTest, SaysWhatIsWrong) {
  const auto refused = [](const auto& change, const std::string& what) {
    auto options = small(2);
    change(options);
    try {
      const AwdQrnn model(options);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused([](auto& o) { o.layers = 0; }, "layers = 0");
  refused([](auto& o) { o.window = 0; }, "window = 0");
  refused([](auto& o) { o.d_hidden = 0; }, "d_hidden = 0");
  refused([](auto& o) { o.weight_dropout = 1; }, "weight_dropout = 1");
  refused([](auto& o) { o.embedding_dropout = -0.5; }, "embedding_dropout = -0.5");
  refused([](auto& o) { o.slowness_penalty = -1; }, "slowness_penalty = -1");
  refused([](auto& o) { o.cutoffs = {6, 6}; }, "cutoffs");
  auto model = make(small(2));
  const auto memory = model->read(tokens(3, 4), {}).memory;
  EXPECT_THROW(model->read(tokens(2, 4), memory), Error);
  EXPECT_THROW(make(small(3))->read(tokens(3, 4), memory), Error);
  EXPECT_THROW(make(small(2, 3))->read(tokens(3, 4), memory), Error);
  EXPECT_THROW(model->read(tokens(3, 4).to(torch::kFloat32), {}), Error);
  EXPECT_THROW(model->forward(tokens(3, 4), tokens(3, 5), {}), Error);
}

}  // namespace
}  // namespace deq::models
