#include <gtest/gtest.h>
#include <torch/torch.h>

#include "deq/core/cuda.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq.h"
#include "deq/models/transformer.h"
#include "deq/train/precision.h"
#include "support/maps.h"
#include "support/seed.h"

// Steps replayed as CUDA graphs, against the first pass of a layer, which is never recorded.

namespace deq {
namespace {

struct Outcome {
  torch::Tensor loss, z;
  std::vector<torch::Tensor> gradients;
};

struct Case {
  Precision precision;
  double tolerance;
  bool penalised;
};

constexpr Case kCases[] = {{Precision::Float64, 1e-9, false}, {Precision::Float64, 1e-9, true},
                           {Precision::Float32, 1e-3, false}, {Precision::Float32, 1e-3, true},
                           {Precision::BFloat16, 0.1, false}, {Precision::BFloat16, 0.1, true}};

EquilibriumOptions options(int64_t evaluations) {
  const Anderson solver{.tol = {.rtol = 0}, .max_evals = evaluations};
  return {.forward = solver, .gradient = Implicit{.solver = solver}};
}

class RecordedStepCudaTest : public test::Seeded {
 protected:
  void SetUp() override {
    if (!load_cuda().available) GTEST_SKIP() << load_cuda().reason;
  }

  /// The first pass of a model is evaluated, the others are replayed; all see the same.
  void expect_replays_to_agree(torch::nn::Module& model, const Case& test,
                               const std::function<Outcome()>& pass) {
    SCOPED_TRACE(
        c10::str("precision ", static_cast<int>(test.precision), ", penalised ", test.penalised));
    const auto once = [&] {
      for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
      Outcome outcome;
      {
        const PrecisionScope scope(test.precision, torch::kCUDA);
        outcome = pass();
      }
      outcome.loss.backward();
      for (const auto& parameter : model.parameters()) {
        outcome.gradients.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                                               : torch::Tensor());
      }
      outcome.loss = outcome.loss.detach();
      return outcome;
    };
    const auto plain = once();
    for (int k = 0; k < 3; ++k) {
      SCOPED_TRACE(c10::str("replay ", k));
      const auto replayed = once();
      EXPECT_LT(test::relative_difference(replayed.z, plain.z), test.tolerance);
      EXPECT_LT(test::relative_difference(replayed.loss, plain.loss), test.tolerance);
      for (size_t i = 0; i < plain.gradients.size(); ++i) {
        ASSERT_EQ(replayed.gradients[i].defined(), plain.gradients[i].defined()) << i;
        if (!plain.gradients[i].defined()) continue;
        EXPECT_LT(test::relative_difference(replayed.gradients[i], plain.gradients[i]),
                  10 * test.tolerance)
            << model.named_parameters().keys()[i];
      }
    }
  }
};

TEST_F(RecordedStepCudaTest, MultiscaleDeq) {
  for (const auto& test : kCases) {
    MdeqOptions small{.dropout = 0};
    MdeqClassifier model(small, generator_);
    model->to(torch::kCUDA, storage_type(test.precision));
    model->train();
    const auto images =
        torch::randn({4, 3, 16, 16}, generator_).to(torch::kCUDA, storage_type(test.precision));
    const auto labels = torch::tensor({1, 2, 3, 4}).cuda();
    expect_replays_to_agree(*model, test, [&] {
      auto output = model->forward(images, EquilibriumPlan(options(6)));
      auto loss = torch::nn::functional::cross_entropy(output.logits, labels);
      if (test.penalised) {
        loss = loss + jacobian_penalty(output.equilibrium.linearization(), {}, ProbeKey{.key = 3});
      }
      return Outcome{
          loss,
          torch::cat(
              {output.equilibrium.state[0].flatten(1), output.equilibrium.state[1].flatten(1)}, 1)
              .detach(),
          {}};
    });
  }
}

TEST_F(RecordedStepCudaTest, DeqTransformer) {
  for (const auto& test : kCases) {
    const TransformerOptions small{.vocabulary = 100,
                                   .cutoffs = {40},
                                   .div_val = 2,
                                   .d_model = 20,
                                   .d_embed = 20,
                                   .heads = 2,
                                   .d_head = 10,
                                   .d_inner = 50,
                                   .tie_projections = {false, true},
                                   .dropout = 0,
                                   .attention_dropout = 0};
    DeqTransformer model(small, generator_);
    model->to(torch::kCUDA, storage_type(test.precision));
    model->train();
    const auto words = torch::randint(100, {3, 8}, generator_, torch::kInt64).cuda();
    expect_replays_to_agree(*model, test, [&] {
      auto output = model->forward(words.narrow(1, 0, 7), words.narrow(1, 1, 7), {},
                                   EquilibriumPlan(options(6)));
      auto loss = output.nll.mean();
      const auto& equilibrium = output.reading.equilibrium;
      if (test.penalised) {
        loss = loss + jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{.key = 3});
      }
      return Outcome{loss, equilibrium.z().detach(), {}};
    });
  }
}

}  // namespace
}  // namespace deq
