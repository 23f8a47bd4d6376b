#include "deq/models/mdeq/mdeq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/jacobian/frobenius.h"
#include "mdeq_small.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;
using test::small_mdeq;

const SolverOptions kMdeqSolver = Broyden{.tol = {.rtol = 1e-8}, .max_evals = 60};
const EquilibriumOptions kPlan{.forward = kMdeqSolver, .gradient = Implicit{.solver = kMdeqSolver}};

class Mdeq : public test::Seeded {
 protected:
  MdeqClassifier model(const MdeqOptions& options) {
    MdeqClassifier made(options, generator_);
    made->to(torch::kFloat64);
    return made;
  }
  torch::Tensor images(int64_t batch, int64_t side) {
    return torch::randn({batch, 3, side, side}, generator_, f64());
  }
  torch::Tensor labels(int64_t batch) { return torch::arange(batch) % 3; }
};

struct Shape {
  const char* what;
  MdeqOptions options;
  int64_t batch, side;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all{{"one scale", small_mdeq(1), 2, 4},
                         {"two scales", small_mdeq(2), 3, 6},
                         {"three scales", small_mdeq(3), 2, 8},
                         {"four scales", small_mdeq(4), 2, 8},
                         {"one image", small_mdeq(2), 1, 4}};
  Shape deeper{"two blocks, a 5×5 convolution", small_mdeq(2), 2, 4};
  deeper.options.blocks = {2, 1};
  deeper.options.big_kernels = {1, 2};
  Shape shrunk{"three halvings of the image", small_mdeq(2), 2, 32};
  shrunk.options.downsample_times = 3;
  Shape plain{"no weight norm, every norm affine", small_mdeq(3), 2, 8};
  plain.options.weight_norm = false;
  plain.options.post_norm_affine = true;
  Shape bare{"no affine norm, dropout", small_mdeq(2), 2, 8};
  bare.options.block_norm_affine = bare.options.fuse_norm_affine = false;
  bare.options.dropout = 0.3;
  for (auto& shape : {deeper, shrunk, plain, bare}) all.push_back(shape);
  return all;
}

TEST_F(Mdeq, EveryShapeRunsForwardAndBackward) {
  for (const auto& [what, options, batch, side] : shapes()) {
    SCOPED_TRACE(what);
    auto net = model(options);
    const auto output = net->forward(images(batch, side), kPlan);
    ASSERT_EQ(output.logits.sizes(), (std::vector<int64_t>{batch, options.classes}));
    ASSERT_EQ(output.equilibrium.state.size(), options.scales());
    const auto top = side >> options.downsample_times;
    for (size_t i = 0; i < options.scales(); ++i) {
      EXPECT_EQ(output.equilibrium.state[i].sizes(),
                (std::vector<int64_t>{batch, options.channels[i], top >> i, top >> i}));
    }
    const auto loss = torch::nn::functional::cross_entropy(output.logits, labels(batch)) +
                      jacobian_penalty(output.equilibrium.linearization(), {}, generator_);
    loss.backward();
    for (const auto& item : net->named_parameters()) {
      // A single scale has nothing to fuse.
      const bool used =
          options.scales() > 1 || item.key().find("post_fuse_layers") == std::string::npos;
      EXPECT_EQ(item.value().grad().defined(), used) << item.key();
      if (!used) continue;
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
}

TEST_F(Mdeq, BatchStatisticsInTrainingAndRunningOnesInEvaluation) {
  auto net = model(small_mdeq(2));
  const auto batch = images(3, 4);
  const auto before = net->named_buffers()["downsample.1.running_mean"].clone();
  const auto both = net->inject(batch);
  const auto after = net->named_buffers()["downsample.1.running_mean"].clone();
  const auto convolved =
      torch::conv2d(batch, net->named_parameters()["downsample.0.weight"], {}, 1, 1);
  EXPECT_LT(relative_difference(after, 0.9 * before + 0.1 * convolved.mean({0, 2, 3})), 1e-12);
  // In train mode an image's injection depends on its neighbours, in eval mode not.
  EXPECT_FALSE(torch::allclose(net->inject(batch.narrow(0, 0, 2)), both.narrow(0, 0, 2)));
  net->eval();
  const auto alone = net->inject(batch.narrow(0, 0, 1));
  EXPECT_TRUE(torch::allclose(alone, net->inject(batch).narrow(0, 0, 1), 1e-12, 1e-14));
  EXPECT_EQ(net->named_buffers()["downsample.1.num_batches_tracked"].item<int64_t>(), 2);
}

TEST_F(Mdeq, UnrolledIsTheStepRepeated) {
  auto net = model(small_mdeq(2));
  net->eval();
  const auto batch = images(2, 4);
  const auto output = net->forward(batch, EquilibriumOptions{.gradient = Unrolled{.steps = 3}});
  const Inputs inputs{net->inject(batch)};
  const auto context = net->cell()->prepare(inputs);
  auto z = net->cell()->initial_state(inputs);
  for (int k = 0; k < 3; ++k) z = net->cell()->step(z, context);
  EXPECT_LT(relative_difference(output.logits, net->classify(z)), 1e-12);
}

TEST_F(Mdeq, BFloat16KeepsTheStateInFloat32) {
  MdeqClassifier net(small_mdeq(3), generator_);
  const PrecisionScope scope(Precision::BFloat16, torch::kCPU);
  const auto output = net->forward(images(4, 8).to(torch::kFloat32), kPlan);
  for (const auto& z : output.equilibrium.state) EXPECT_EQ(z.scalar_type(), torch::kFloat32);
  torch::nn::functional::cross_entropy(output.logits, labels(4)).backward();
  for (const auto& item : net->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
}

TEST_F(Mdeq, TheGeneratorDecidesTheStart) {
  const auto weights = [](uint64_t stream) {
    const MdeqClassifier net(small_mdeq(2), test::generator(stream));
    std::vector<torch::Tensor> flat;
    for (const auto& parameter : net->parameters()) flat.push_back(parameter.detach().flatten());
    return torch::cat(flat);
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

TEST_F(Mdeq, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  auto net = model(small_mdeq(3));
  EXPECT_THAT([&] { net->forward(images(2, 6), kPlan); },
              ThrowsMessage<Error>(HasSubstr("6×6 cannot be halved 2 times")));
  EXPECT_THAT(
      [&] {
        net->inject(torch::zeros({2, 1, 8, 8}, f64()));
      },
      ThrowsMessage<Error>(HasSubstr("images of shape [2, 1, 8, 8], must be [B, 3, H, W]")));
  EXPECT_THAT(
      [&] {
        net->equilibrate(torch::zeros({2, 5, 8, 8}, f64()), kPlan);
      },
      ThrowsMessage<Error>(HasSubstr("must be [B, 4, H, W]")));
  EXPECT_THAT(
      [&] {
        net->classify({torch::zeros({2, 4, 8, 8}, f64())});
      },
      ThrowsMessage<Error>(HasSubstr("has 1 tensors, expected 3")));
  EXPECT_THAT([&] { net->forward(images(1, 4), kPlan); },
              ThrowsMessage<Error>(HasSubstr("more than one value per channel")));
  net->eval();
  EXPECT_NO_THROW(net->forward(images(1, 4), kPlan));
}

}  // namespace
}  // namespace deq::models
