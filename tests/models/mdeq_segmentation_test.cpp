#include "deq/models/mdeq/segmentation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/nn/modules/batchnorm.h>

#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/models/mdeq/mdeq.h"
#include "mdeq_small.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

namespace F = torch::nn::functional;
using test::f64;
using test::relative_difference;
using test::small_mdeq;

const SolverOptions kSolver = Broyden{.tol = {.rtol = 1e-8}, .max_evals = 60};
const EquilibriumOptions kMdeqSegmentationImplicit{.forward = kSolver,
                                                   .gradient = Implicit{.solver = kSolver}};
const EquilibriumOptions kUnrolled{.gradient = Unrolled{.steps = 3}};

MdeqSegmenterOptions small_segmenter(size_t scales, int64_t downsample_times = 0) {
  MdeqSegmenterOptions options{.mdeq = small_mdeq(scales)};
  options.mdeq.downsample_times = downsample_times;
  return options;
}

class Segmenter : public test::Seeded {
 protected:
  MdeqSegmenter model(const MdeqSegmenterOptions& options) {
    MdeqSegmenter made(options, generator_);
    made->to(torch::kFloat64);
    return made;
  }
  torch::Tensor images(int64_t batch, int64_t height, int64_t width) {
    return torch::randn({batch, 3, height, width}, generator_, f64());
  }
};

F::InterpolateFuncOptions to_size(int64_t height, int64_t width) {
  return F::InterpolateFuncOptions()
      .size(std::vector<int64_t>{height, width})
      .mode(torch::kBilinear)
      .align_corners(true);
}

/// The head written out with plain operators, from the parameters by their published names.
torch::Tensor plain_head(MdeqSegmenterImpl& net, const State& z, int64_t padding) {
  const auto weights = net.named_parameters();
  const auto statistics = net.named_buffers();
  auto features = z[0];
  for (size_t i = 1; i < z.size(); ++i) {
    features = torch::cat({features, F::interpolate(z[i], to_size(z[0].size(2), z[0].size(3)))}, 1);
  }
  features = torch::conv2d(features, weights["last_layer.0.weight"], weights["last_layer.0.bias"]);
  const auto column = [](const torch::Tensor& row) { return row.view({1, -1, 1, 1}); };
  features = (features - column(statistics["last_layer.1.running_mean"])) /
             (column(statistics["last_layer.1.running_var"]) + 1e-5).sqrt();
  features =
      features * column(weights["last_layer.1.weight"]) + column(weights["last_layer.1.bias"]);
  return torch::conv2d(features.clamp_min(0), weights["last_layer.3.weight"],
                       weights["last_layer.3.bias"], 1, padding);
}

TEST_F(Segmenter, ScoresEveryPixelOfImagesOfAnySize) {
  struct Shape {
    size_t scales;
    int64_t halvings, height, width;
  };
  for (const auto& [scales, halvings, height, width] :
       {Shape{1, 0, 5, 3}, Shape{2, 0, 7, 4}, Shape{3, 1, 13, 9}, Shape{3, 2, 16, 32},
        Shape{4, 1, 17, 31}}) {
    SCOPED_TRACE(fmt::format("{} scales, {} halvings, {}×{}", scales, halvings, height, width));
    auto net = model(small_segmenter(scales, halvings));
    const auto output = net->forward(images(2, height, width), kMdeqSegmentationImplicit);
    EXPECT_EQ(output.logits.sizes(), (std::vector<int64_t>{2, 3, height, width}));
    const auto unit = int64_t{1} << (static_cast<int64_t>(scales) + halvings - 1);
    const auto finest = [&](int64_t side) { return (side + unit - 1) / unit * unit >> halvings; };
    EXPECT_EQ(output.equilibrium.z().size(2), finest(height));
    EXPECT_EQ(output.equilibrium.z().size(3), finest(width));
  }
}

TEST_F(Segmenter, TheHeadIsWhatPlainOperatorsCompute) {
  for (const int64_t kernel : {1, 3}) {
    auto options = small_segmenter(3, 1);
    options.final_kernel = kernel;
    auto net = model(options);
    // Statistics and scales other than those of the start.
    net->forward(images(3, 16, 24), kUnrolled);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : net->parameters()) {
        parameter.add_(torch::randn(parameter.sizes(), generator_, f64()), 0.1);
      }
    }
    net->eval();
    const auto batch = images(2, 16, 24);
    const auto output = net->forward(batch, kUnrolled);
    const auto scores = plain_head(*net, output.equilibrium.state, kernel / 2);
    EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{2, 3, 8, 12}));
    EXPECT_LT(relative_difference(net->segment(output.equilibrium.state), scores), 1e-12);
    EXPECT_LT(relative_difference(output.logits, F::interpolate(scores, to_size(16, 24))), 1e-12);
  }
}

TEST_F(Segmenter, ABorderOfZerosIsAddedAndTakenAwayAgain) {
  auto net = model(small_segmenter(3));
  net->eval();
  const auto whole = images(2, 8, 12);
  const auto part = whole.narrow(2, 0, 6).narrow(3, 0, 9);
  auto padded = torch::zeros_like(whole);
  padded.narrow(2, 0, 6).narrow(3, 0, 9).copy_(part);
  const auto expected = net->forward(padded, kUnrolled).logits.narrow(2, 0, 6).narrow(3, 0, 9);
  EXPECT_TRUE(net->forward(part, kUnrolled).logits.equal(expected));
}

TEST_F(Segmenter, SharesTheTrunkOfTheClassifier) {
  const auto options = small_segmenter(3, 1);
  const MdeqSegmenter segmenter(options, test::generator(1));
  const MdeqClassifier classifier(options.mdeq, test::generator(1));
  const auto weights = classifier->named_parameters();
  int64_t shared = 0;
  for (const auto& item : segmenter->named_parameters()) {
    if (item.key().starts_with("last_layer.")) continue;
    ASSERT_TRUE(weights.contains(item.key())) << item.key();
    EXPECT_TRUE(weights[item.key()].equal(item.value())) << item.key();
    ++shared;
  }
  EXPECT_GT(shared, 20);
  const auto head = segmenter->named_children()["last_layer"]->named_parameters();
  EXPECT_THAT(head.keys(), ::testing::ElementsAre("0.weight", "0.bias", "1.weight", "1.bias",
                                                  "3.weight", "3.bias"));
}

TEST_F(Segmenter, EveryParameterGetsTheGradientOfTheLoss) {
  const auto labels = torch::randint(3, {2, 7, 10}, generator_, torch::kInt64);
  for (const auto& plan : {kMdeqSegmentationImplicit, kUnrolled}) {
    auto net = model(small_segmenter(3, 1));
    const auto output = net->forward(images(2, 7, 10), plan);
    F::cross_entropy(output.logits, labels).backward();
    for (const auto& item : net->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
}

TEST_F(Segmenter, AllBatchNormsHaveTheMomentumOfTheOptions) {
  auto options = small_segmenter(3, 1);
  options.norm_momentum = 0.25;
  auto net = model(options);
  const auto batch = images(3, 8, 8);
  const auto convolved =
      torch::conv2d(batch, net->named_parameters()["downsample.0.weight"], {}, 2, 1);
  net->forward(batch, kUnrolled);
  EXPECT_LT(relative_difference(net->named_buffers()["downsample.1.running_mean"],
                                0.25 * convolved.mean({0, 2, 3})),
            1e-12);
  for (const auto& module : net->modules()) {
    if (auto* norm = module->as<torch::nn::BatchNorm2d>()) {
      EXPECT_EQ(norm->options.momentum(), 0.25);
    }
  }
}

TEST_F(Segmenter, BFloat16GivesScoresOfTheImagesType) {
  MdeqSegmenter net(small_segmenter(2), generator_);
  const PrecisionScope scope(Precision::BFloat16, torch::kCPU);
  const auto output = net->forward(images(2, 6, 7).to(torch::kFloat32), kMdeqSegmentationImplicit);
  EXPECT_EQ(output.logits.scalar_type(), torch::kFloat32);
  EXPECT_EQ(output.equilibrium.z().scalar_type(), torch::kFloat32);
}

TEST_F(Segmenter, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  const auto refused = [](auto change) {
    return [change] {
      auto options = small_segmenter(2);
      change(options);
      validate(options);
    };
  };
  EXPECT_THAT(refused([](auto& options) { options.final_kernel = 2; }),
              ThrowsMessage<Error>(HasSubstr("final_kernel = 2, must be 1 or 3")));
  EXPECT_THAT(refused([](auto& options) { options.norm_momentum = 0; }),
              ThrowsMessage<Error>(HasSubstr("norm_momentum = 0, must be in (0, 1]")));
  EXPECT_THAT(refused([](auto& options) { options.mdeq.classes = 0; }),
              ThrowsMessage<Error>(HasSubstr("classes = 0")));
  // A classifier's head has no say here.
  EXPECT_NO_THROW(refused([](auto& options) { options.mdeq.head_channels = {}; })());
  auto net = model(small_segmenter(3));
  EXPECT_THAT(
      [&] {
        net->forward(torch::zeros({3, 8, 8}, f64()), kMdeqSegmentationImplicit);
      },
      ThrowsMessage<Error>(HasSubstr("images of shape [3, 8, 8], must be [B, 3, H, W]")));
  EXPECT_THAT(
      [&] {
        net->segment({torch::zeros({2, 4, 8, 8}, f64())});
      },
      ThrowsMessage<Error>(HasSubstr("has 1 tensors, expected 3")));
}

}  // namespace
}  // namespace deq::models
