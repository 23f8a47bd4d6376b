#include "deq/models/explicit/inception.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "models/explicit_fixture.h"
#include "models/explicit_properties.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;

/// A row of the publication's Figure 5: the convolutions' channels, and the module's output.
struct Row {
  const char* name;
  int64_t single, reduced, triple, double_reduced, double_triple, projected;
  bool halves;
  int64_t height, channels;
};

// The projections of 4c and 4d are what the table's outputs leave for them.
constexpr Row kTable[] = {
    {"3a", 64, 64, 64, 64, 96, 32, false, 28, 256},
    {"3b", 64, 64, 96, 64, 96, 64, false, 28, 320},
    {"3c", 0, 128, 160, 64, 96, 0, true, 14, 576},
    {"4a", 224, 64, 96, 96, 128, 128, false, 14, 576},
    {"4b", 192, 96, 128, 96, 128, 128, false, 14, 576},
    {"4c", 160, 128, 160, 128, 160, 576 - 160 - 160 - 160, false, 14, 576},
    {"4d", 96, 128, 192, 160, 192, 576 - 96 - 192 - 192, false, 14, 576},
    {"4e", 0, 128, 192, 192, 256, 0, true, 7, 1024},
    {"5a", 352, 192, 320, 160, 224, 128, false, 7, 1024},
    {"5b", 352, 192, 320, 192, 224, 128, false, 7, 1024},
};

InceptionOptions small(Stem stem = Stem::Cifar) {
  using enum InceptionPool;
  return {.stem_channels = 4,
          .stem_outputs = 6,
          .modules = {{3, 2, 4, 2, 3, 2, Average},
                      {0, 2, 3, 2, 3, 0, Halving},
                      {2, 3, 2, 2, 3, 4, Max}},
          .stem = stem,
          .classes = 5};
}

class InceptionTest : public test::Seeded {
 protected:
  torch::Tensor images(int64_t batch = 3, int64_t size = 16) {
    return torch::randn({batch, 3, size, size}, generator_, f64());
  }
};

/// Weights and what normalises them; a bias of each convolution besides, if it has one.
int64_t convolution_size(int64_t in, int64_t out, int64_t kernel, bool bias) {
  return in * out * kernel * kernel + 2 * out + (bias ? out : 0);
}

/// From the table, without the code under test: all but the first layer.
int64_t tables_count(int64_t classes, bool biases = false, int64_t wider_projections = 0) {
  const auto size = [&](int64_t in, int64_t out, int64_t kernel) {
    return convolution_size(in, out, kernel, biases);
  };
  int64_t channels = 192, count = size(64, 64, 1) + size(64, 192, 3);
  for (const auto& row : kTable) {
    int64_t projected = row.projected;
    if (projected == 96) projected += wider_projections;
    count += size(channels, row.reduced, 1) + size(row.reduced, row.triple, 3) +
             size(channels, row.double_reduced, 1) +
             size(row.double_reduced, row.double_triple, 3) +
             size(row.double_triple, row.double_triple, 3);
    if (!row.halves) count += size(channels, row.single, 1) + size(channels, projected, 1);
    channels = row.single + row.triple + row.double_triple + (row.halves ? channels : projected);
  }
  return count + channels * classes + classes;
}

TEST_F(InceptionTest, HasThePublishedSizes) {
  const auto size = [](const InceptionOptions& options) {
    return test::parameter_count(*Inception(options));
  };
  constexpr int64_t kSeparable = 3 * 8 * 49 + 24 * 64 + 2 * 64;
  EXPECT_EQ(size(inception_v2(Stem::ImageNet, 1000)), tables_count(1000) + kSeparable);
  EXPECT_EQ(size(inception_v2(Stem::ImageNet, 1000)), 11'188'288);
  EXPECT_EQ(size(inception_v2()), tables_count(10) + convolution_size(3, 64, 3, /*bias=*/false));
  // The formula, of the network that is known from Caffe: biases, a full first convolution, and
  // projections to 128 channels in 4c and 4d. The literature has its size.
  EXPECT_EQ(tables_count(1000, /*biases=*/true, /*wider_projections=*/32) +
                convolution_size(3, 64, 7, /*bias=*/true),
            11'295'240);
}

TEST_F(InceptionTest, EveryModuleHasTheTablesOutput) {
  const torch::NoGradGuard no_grad;
  const auto modules = inception_v2_modules();
  ASSERT_EQ(modules.size(), std::size(kTable));
  for (size_t count = 1; count <= modules.size(); ++count) {
    const auto& row = kTable[count - 1];
    auto options = inception_v2(Stem::ImageNet, 7);
    options.modules.resize(count);
    Inception network(options);
    network->eval();
    // A smaller image takes less time; the last module sees the published size.
    const int64_t size = count < modules.size() ? 64 : 224, height = row.height * size / 224;
    EXPECT_EQ(network->features(torch::zeros({1, 3, size, size})).sizes(),
              (std::vector<int64_t>{1, row.channels, height, height}))
        << row.name;
    const std::string name = std::string("features.inception") + row.name + ".";
    const auto parameters = network->named_parameters();
    const auto outputs = [&](const char* convolution) {
      const auto* weight = parameters.find(name + convolution + ".conv.weight");
      return weight == nullptr ? 0 : weight->size(0);
    };
    EXPECT_EQ(outputs("single.0"), row.single) << row.name;
    EXPECT_EQ(outputs("triple.0"), row.reduced) << row.name;
    EXPECT_EQ(outputs("triple.1"), row.triple) << row.name;
    EXPECT_EQ(outputs("double_triple.0"), row.double_reduced) << row.name;
    EXPECT_EQ(outputs("double_triple.1"), row.double_triple) << row.name;
    EXPECT_EQ(outputs("double_triple.2"), row.double_triple) << row.name;
    EXPECT_EQ(outputs("pooled.1"), row.projected) << row.name;
  }
}

TEST_F(InceptionTest, SmallImagesAreHalvedTwice) {
  const torch::NoGradGuard no_grad;
  Inception network(inception_v2());
  network->eval();
  EXPECT_EQ(network->features(torch::zeros({2, 3, 32, 32})).sizes(),
            (std::vector<int64_t>{2, 1024, 8, 8}));
}

// ---- the formula, from the names of the weights
// ---------------------------------------------------

/// The network in plain torch, in eval mode.
class Plain {
 public:
  explicit Plain(const torch::nn::Module& network)
      : parameters_(network.named_parameters()), buffers_(network.named_buffers()) {}

  torch::Tensor operator()(const torch::Tensor& images, const InceptionOptions& options) const {
    torch::Tensor x;
    if (options.stem == Stem::Cifar) {
      x = normed("conv1", images, 1, 1);
    } else {
      const auto filters = parameters_["features.filters1.weight"];
      std::vector<torch::Tensor> colours;
      for (int64_t c = 0; c < 3; ++c) {
        colours.push_back(
            torch::conv2d(images.slice(1, c, c + 1), filters.slice(0, 8 * c, 8 * c + 8), {}, 2, 3));
      }
      x = torch::max_pool2d(normed("conv1", torch::cat(colours, 1), 1, 0), 3, 2, 1);
    }
    x = normed("conv2", normed("reduction2", x, 1, 0), 1, 1);
    if (options.stem == Stem::ImageNet) x = torch::max_pool2d(x, 3, 2, 1);
    int number = 3;
    char letter = 'a';
    for (const auto& module : options.modules) {
      x = inception("inception" + std::to_string(number) + letter++, x, module.pool);
      if (module.pool != InceptionPool::Halving) continue;
      ++number;
      letter = 'a';
    }
    return torch::linear(x.flatten(2).mean(2), parameters_["classifier.weight"],
                         parameters_["classifier.bias"]);
  }

 private:
  torch::Tensor inception(const std::string& name, const torch::Tensor& x,
                          InceptionPool pool) const {
    const bool halves = pool == InceptionPool::Halving;
    const int64_t stride = halves ? 2 : 1;
    std::vector<torch::Tensor> outputs;
    if (!halves) outputs.push_back(normed(name + ".single.0", x, 1, 0));
    outputs.push_back(normed(name + ".triple.1", normed(name + ".triple.0", x, 1, 0), stride, 1));
    auto twice =
        normed(name + ".double_triple.1", normed(name + ".double_triple.0", x, 1, 0), 1, 1);
    outputs.push_back(normed(name + ".double_triple.2", twice, stride, 1));
    const auto pooled =
        pool == InceptionPool::Average ? mean_of_neighbours(x) : torch::max_pool2d(x, 3, stride, 1);
    outputs.push_back(halves ? pooled : normed(name + ".pooled.1", pooled, 1, 0));
    return torch::cat(outputs, 1);
  }

  /// The sum over 3×3 over how many of these lie in the image.
  static torch::Tensor mean_of_neighbours(const torch::Tensor& x) {
    const auto sum = [](const torch::Tensor& values) {
      const auto ones = torch::ones({values.size(1), 1, 3, 3}, f64());
      return torch::conv2d(values, ones, {}, 1, 1, 1, values.size(1));
    };
    return sum(x) / sum(torch::ones_like(x));
  }

  torch::Tensor normed(const std::string& name, const torch::Tensor& x, int64_t stride,
                       int64_t padding) const {
    const std::string at = "features." + name;
    const auto y = torch::conv2d(x, parameters_[at + ".conv.weight"], {}, stride, padding);
    const auto column = [](const torch::Tensor& row) { return row.view({1, -1, 1, 1}); };
    const auto scale =
        parameters_[at + ".norm.weight"] / (buffers_[at + ".norm.running_var"] + 1e-5).sqrt();
    return ((y - column(buffers_[at + ".norm.running_mean"])) * column(scale) +
            column(parameters_[at + ".norm.bias"]))
        .clamp_min(0);
  }

  torch::OrderedDict<std::string, torch::Tensor> parameters_, buffers_;
};

/// Norms as after a training, not those of the start.
void scatter_norms(Inception& network, at::Generator generator) {
  const torch::NoGradGuard no_grad;
  const auto scatter = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      auto value = item.value();
      if (value.dim() != 1 || !item.key().starts_with("features.")) continue;
      const bool positive = item.key().ends_with("weight") || item.key().ends_with("running_var");
      value.uniform_(positive ? 0.5 : -0.5, positive ? 1.5 : 0.5, generator);
    }
  };
  scatter(network->named_parameters());
  scatter(network->named_buffers());
}

TEST_F(InceptionTest, FollowsTheFormula) {
  const torch::NoGradGuard no_grad;
  const auto deviation = [this](const InceptionOptions& options, int64_t size) {
    Inception network(options, generator_);
    network->to(torch::kFloat64);
    network->eval();
    scatter_norms(network, generator_);
    const auto x = images(2, size);
    return test::relative_difference(network(x), Plain(*network)(x, options));
  };
  for (const auto stem : {Stem::Cifar, Stem::ImageNet}) {
    EXPECT_LT(deviation(small(stem), 31), 1e-12);
    EXPECT_LT(deviation(inception_v2(stem, 10), stem == Stem::Cifar ? 16 : 64), 1e-12);
  }
}

// ---- as every explicit network
// --------------------------------------------------------------------

TEST_F(InceptionTest, StartsWithKaimingsWeights) {
  const Inception network(inception_v2(Stem::ImageNet), generator_);
  for (const auto& item : network->named_parameters()) {
    const auto& [name, value] = item.pair();
    if (value.dim() == 4) {
      const double expected = std::sqrt(2.0 / static_cast<double>(value.numel() / value.size(0)));
      const double allowed = 6 / std::sqrt(2.0 * static_cast<double>(value.numel()));
      EXPECT_NEAR(value.std().item<double>() / expected, 1, allowed) << name;
    } else if (name.starts_with("classifier.")) {
      EXPECT_LE(value.abs().max().item<double>(), 1 / std::sqrt(1024.0)) << name;
      EXPECT_GT(value.abs().max().item<double>(), 0.5 / std::sqrt(1024.0)) << name;
    } else {
      EXPECT_TRUE((value == (name.ends_with("weight") ? 1 : 0)).all().item<bool>()) << name;
    }
  }
}

TEST_F(InceptionTest, TheGeneratorDecidesTheStart) {
  const auto weights = [](uint64_t stream) {
    const Inception network(small(), test::generator(stream));
    return torch::cat(
        {network->named_parameters()["features.inception3b.triple.1.conv.weight"].flatten(),
         network->named_parameters()["classifier.bias"]});
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

TEST_F(InceptionTest, GradientsMatchDifferences) {
  for (const auto stem : {Stem::Cifar, Stem::ImageNet}) {
    Inception network(small(stem), generator_);
    test::expect_gradients_match_differences(network, images(3, 32), generator_);
  }
}

TEST_F(InceptionTest, BatchNormFollowsTheMode) {
  Inception network(small(), generator_), fresh(small(), generator_);
  test::expect_batch_norm_follows_the_mode(network, images(), "features.conv1.norm");
  test::expect_running_statistics(fresh, images(), "features.conv1.conv", "features.conv1.norm");
}

TEST_F(InceptionTest, TakesImagesOfOtherSizes) {
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(Inception(small(Stem::ImageNet))->forward(torch::randn({2, 3, 224, 160})).sizes(),
            (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(Inception(small())->forward(torch::randn({2, 3, 5, 7})).sizes(),
            (std::vector<int64_t>{2, 5}));
}

TEST_F(InceptionTest, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  const auto expect = [](auto change, const char* message) {
    auto options = small();
    change(options);
    EXPECT_THAT([&] { Inception{options}; }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  using Options = InceptionOptions;
  expect([](Options& o) { o.stem_channels = 0; }, "stem_channels = 0, must be ≥ 1");
  expect([](Options& o) { o.stem_outputs = -2; }, "stem_outputs = -2, must be ≥ 1");
  expect([](Options& o) { o.modules.clear(); }, "no modules, must be at least one");
  expect([](Options& o) { o.modules[0].single = 0; }, "single of module 3a = 0, must be ≥ 1");
  expect([](Options& o) { o.modules[1].projected = 8; },
         "projected of module 3b = 8, must be 0 because the module halves");
  expect([](Options& o) { o.modules[2].double_triple = 0; },
         "double_triple of module 4a = 0, must be ≥ 1");
  expect([](Options& o) { o.classes = 0; }, "classes = 0, must be ≥ 1");
  EXPECT_THAT(
      [] {
        Inception(small())->forward(torch::zeros({3, 8, 8}));
      },
      ThrowsMessage<Error>(HasSubstr("inception: images of shape [3, 8, 8], must be")));
}

}  // namespace
}  // namespace deq::models
