#include "deq/models/recurrent/qrnn.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include "gpu_test.h"

namespace deq::models {
namespace {

using test::distance;
using test::largest;

class QrnnCudaTest : public test::GpuTest {
 protected:
  QrnnCudaTest() {
    options_.vocabulary = 300;
    options_.cutoffs = {50, 120};
    options_.layers = 3;
    options_.d_embed = 24;
    options_.d_hidden = 34;
    options_.input_dropout = options_.hidden_dropout = options_.output_dropout = 0;
    options_.activation_penalty = 2;
    options_.slowness_penalty = 3;
    options_.init_std = 0.5;
  }

  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(options_.vocabulary, {batch, length}, generator_, torch::kInt64);
  }

  QrnnOptions options_;
};

/// The mean cost with the penalty; its gradients.
std::vector<torch::Tensor> cost_and_gradients(AwdQrnn model, const torch::Tensor& text,
                                              const QrnnMemory& memory) {
  const auto words = text.to(model->parameters()[0].device());
  auto output = model->forward(words.slice(1, 0, -1), words.slice(1, 1), memory);
  const auto cost = output.nll.mean() + output.penalty;
  auto all = torch::autograd::grad({cost}, model->parameters());
  all.insert(all.begin(), cost);
  return all;
}

TEST_F(QrnnCudaTest, CostsAndGradientsAreThoseOfTheCpu) {
  AwdQrnn model(options_, generator_), exact(options_);
  for (const auto& item : model->named_parameters()) {
    const torch::NoGradGuard no_grad;
    exact->named_parameters()[item.key()].copy_(item.value());
  }
  model->to(torch::kCUDA);
  exact->to(torch::kFloat64);
  const auto before = tokens(6, 5), text = tokens(6, 12);
  const auto memory = model->read(before.to(torch::kCUDA), {}).memory;
  const auto expected = cost_and_gradients(exact, text, exact->read(before, {}).memory);
  const auto found = cost_and_gradients(model, text, memory);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(distance(found[i].cpu(), expected[i]), 1e-4 * (0.01 + largest(expected[i]))) << i;
  }
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
  const auto rounded = cost_and_gradients(model, text, memory);
  const auto after = model->read(text.to(torch::kCUDA), memory).memory;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  for (size_t i = 0; i < rounded.size(); ++i) {
    EXPECT_LE(distance(rounded[i].cpu(), expected[i]), 0.1 * (0.01 + largest(expected[i]))) << i;
  }
  for (const auto& state : after.states) EXPECT_EQ(state.scalar_type(), torch::kFloat32);
}

TEST_F(QrnnCudaTest, MasksAreDrawnThereUnderAutocastToo) {
  options_.embedding_dropout = options_.weight_dropout = 0.2;
  options_.input_dropout = options_.hidden_dropout = options_.output_dropout = 0.3;
  AwdQrnn model(options_, generator_);
  model->to(torch::kCUDA);
  const auto text = tokens(4, 9);
  for (const bool autocast : {false, true}) {
    at::autocast::set_autocast_enabled(at::kCUDA, autocast);
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    const auto cost = [&](uint64_t seed) {
      torch::manual_seed(seed);
      return cost_and_gradients(model, text, {})[0];
    };
    EXPECT_TRUE(cost(1).equal(cost(1)));
    EXPECT_FALSE(cost(1).equal(cost(2)));
    EXPECT_TRUE(cost(3).isfinite().item<bool>());
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
}

}  // namespace
}  // namespace deq::models
