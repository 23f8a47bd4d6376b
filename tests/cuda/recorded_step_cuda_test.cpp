#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "deq/core/precision.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/transformer/transformer.h"
#include "gpu_test.h"
#include "support/maps.h"

// The models replayed in every precision. What rounding does to an evaluated pass, measured against
// float64, is what a replayed pass may differ by.

namespace deq {
namespace {

struct Pass {
  torch::Tensor loss, z;
};

struct RecordedStepOutcome {
  torch::Tensor z, gradient;  // all gradients as one vector
};

/// A pass's gradient.
enum class Kind { Implicit, Penalised, Unrolled };
constexpr Kind kKinds[] = {Kind::Implicit, Kind::Penalised, Kind::Unrolled};
constexpr Precision kReplayedPrecisions[] = {Precision::Float64, Precision::Float32,
                                             Precision::TensorFloat32, Precision::BFloat16};

EquilibriumPlan plan(Kind kind, Replay replay) {
  const Anderson solver{.tol = {.rtol = 0}, .max_evals = 6};
  if (kind == Kind::Unrolled) {
    return EquilibriumPlan(
        {.forward = solver, .gradient = Unrolled{.steps = 4, .replayed = true}, .replay = replay});
  }
  return EquilibriumPlan(
      {.forward = solver, .gradient = Implicit{.solver = solver}, .replay = replay});
}

class RecordedStepCudaTest : public test::GpuTest {
 protected:
  static RecordedStepOutcome differentiate(torch::nn::Module& model, Precision precision,
                                           const std::function<Pass()>& pass) {
    for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
    const TensorFloat32Scope products(precision, torch::kCUDA);  // of backward too
    Pass result;
    {
      const PrecisionScope scope(precision, torch::kCUDA);
      result = pass();
    }
    result.loss.backward();
    std::vector<torch::Tensor> parts;
    for (const auto& parameter : model.parameters()) {
      const auto& gradient = parameter.grad();
      parts.push_back((gradient.defined() ? gradient : torch::zeros_like(parameter)).flatten());
    }
    return {result.z.to(torch::kFloat64), torch::cat(parts).to(torch::kFloat64)};
  }

  static void expect_within_rounding(const RecordedStepOutcome& replayed,
                                     const RecordedStepOutcome& evaluated,
                                     const RecordedStepOutcome& exact) {
    const auto expect = [](const char* what, const torch::Tensor& own, const torch::Tensor& plain,
                           const torch::Tensor& truth) {
      // Recorded convolutions may be other algorithms: their rounding is another, of the same size.
      const double rounding = test::relative_difference(plain, truth);
      const double difference = test::relative_difference(own, plain);
      EXPECT_LE(difference, 2 * rounding + 1e-12) << what << ", rounding " << rounding;
      EXPECT_LE(test::relative_difference(own, truth), 2 * rounding + 1e-12) << what;
    };
    expect("z", replayed.z, evaluated.z, exact.z);
    expect("the gradient", replayed.gradient, evaluated.gradient, exact.gradient);
  }

  /// `make` gives a model's passes in one precision.
  template <class Make>
  void expect_right(const Make& make) {
    for (const auto kind : kKinds) {
      SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(kind)));
      const auto outcome = [&](auto& model, Precision precision, Replay replay) {
        return differentiate(*model.module, precision, [&] { return model.pass(kind, replay); });
      };
      auto precise = make(Precision::Float64);
      const auto exact = outcome(precise, Precision::Float64, Replay::Off);
      for (const auto precision : kReplayedPrecisions) {
        SCOPED_TRACE(fmt::format("precision {}", static_cast<int>(precision)));
        auto model = make(precision);
        const auto evaluated = outcome(model, precision, Replay::Off);
        for (int k = 0; k < 3; ++k) {
          SCOPED_TRACE(fmt::format("pass {}", k));
          expect_within_rounding(outcome(model, precision, Replay::Automatic), evaluated, exact);
        }
        for (int k = 0; k < 2; ++k) outcome(model, precision, Replay::Checked);
        torch::cuda::synchronize();
        const c10::impl::VirtualGuardImpl device(torch::kCUDA);
        const c10::StreamGuard elsewhere(device.getStreamFromGlobalPool(exact.z.device()));
        for (int k = 0; k < 3; ++k) {
          SCOPED_TRACE(fmt::format("on another stream, pass {}", k));
          expect_within_rounding(outcome(model, precision, Replay::Automatic), evaluated, exact);
        }
        torch::cuda::synchronize();
      }
    }
  }
};

TEST_F(RecordedStepCudaTest, MultiscaleDeq) {
  const auto images = torch::randn({4, 3, 16, 16}, generator_, test::f64()).cuda();
  const auto labels = torch::tensor({1, 2, 3, 4}).cuda();
  const auto key = generator_.current_seed();
  struct Model {
    models::MdeqClassifier module;
    std::function<Pass(Kind, Replay)> pass;
  };
  expect_right([&](Precision precision) {
    models::MdeqClassifier model(models::MdeqOptions{.dropout = 0},
                                 torch::make_generator<at::CPUGeneratorImpl>(key));
    model->to(torch::kCUDA, storage_type(precision));
    return Model{
        model, [=](Kind kind, Replay replay) mutable {
          auto output = model->forward(images.to(storage_type(precision)), plan(kind, replay));
          auto loss = torch::nn::functional::cross_entropy(output.logits, labels);
          const auto& at = output.equilibrium;
          if (kind == Kind::Penalised) {
            loss = loss + jacobian_penalty(at.linearization(), {}, ProbeKey{.key = 3});
          }
          return Pass{loss,
                      torch::cat({at.state[0].flatten(1), at.state[1].flatten(1)}, 1).detach()};
        }};
  });
}

TEST_F(RecordedStepCudaTest, DeqTransformer) {
  const models::TransformerOptions small{.vocabulary = 100,
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
  const auto words = torch::randint(100, {3, 8}, generator_, torch::kInt64).cuda();
  const auto key = generator_.current_seed();
  struct Model {
    models::DeqTransformer module;
    std::function<Pass(Kind, Replay)> pass;
  };
  expect_right([&](Precision precision) {
    models::DeqTransformer model(small, torch::make_generator<at::CPUGeneratorImpl>(key));
    model->to(torch::kCUDA, storage_type(precision));
    return Model{model, [=](Kind kind, Replay replay) mutable {
                   auto output = model->forward(words.narrow(1, 0, 7), words.narrow(1, 1, 7), {},
                                                plan(kind, replay));
                   auto loss = output.nll.mean();
                   const auto& at = output.reading.equilibrium;
                   if (kind == Kind::Penalised) {
                     loss = loss + jacobian_penalty(at.linearization(), {}, ProbeKey{.key = 3});
                   }
                   return Pass{loss, at.z().detach()};
                 }};
  });
}

}  // namespace
}  // namespace deq
