#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "deq/core/precision.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/transformer/transformer.h"
#include "gpu_test.h"
#include "replay/recordings.h"
#include "support/maps.h"

// The models replayed in every precision, with new inputs or new weights in each pass.
//
// How far a replayed pass may be from an evaluated one: both round, perhaps by other algorithms.
// Let e be the distance of the evaluated one from float64, with the same weights and inputs; then
// each is about e from the truth, and they are 2 e from each other at most. What a recording keeps
// of an earlier pass moves the result by more than that, which is tested as well.

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
constexpr int kPasses = 6;  // the first is evaluated, the second is recorded
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

  /// What one part of a pass may differ by; `before` is that of the pass before.
  static void expect_within_rounding(const char* what, const torch::Tensor& replayed,
                                     const torch::Tensor& evaluated, const torch::Tensor& exact,
                                     const torch::Tensor& before, bool sharp) {
    const double rounding = test::relative_difference(evaluated, exact);
    const double bound = 2 * rounding + 1e-12;
    EXPECT_LE(test::relative_difference(replayed, evaluated), bound)
        << what << ", evaluated: " << rounding << " from float64";
    EXPECT_LE(test::relative_difference(replayed, exact), bound) << what << " from float64";
    if (before.defined() && sharp) {
      EXPECT_GT(test::relative_difference(before, evaluated), bound)
          << what << " of the pass before would have passed for this one's";
    }
  }

  /// Inputs change in even passes, weights in odd ones.
  void change_weights(torch::nn::Module& model, int pass) {
    if (pass % 2 == 0) return;
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) {
      const auto noise = torch::randn(parameter.sizes(), generator_, test::f64());
      parameter.add_(0.2 * parameter.abs().mean() * noise.to(parameter.options()));
    }
  }

  static void copy_weights(const torch::nn::Module& from, const torch::nn::Module& to) {
    const torch::NoGradGuard no_grad;
    const auto source = from.parameters();
    auto target = to.parameters();
    for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
  }

  template <class Model>
  static RecordedStepOutcome outcome(Model& model, Precision precision, Kind kind, Replay replay,
                                     int pass) {
    torch::manual_seed(pass);
    return differentiate(*model.module, precision,
                         [&] { return model.pass(kind, replay, pass / 2); });
  }

  template <class Model>
  void expect_right(Model& model, Model& precise, Precision precision, Kind kind, Replay replay) {
    RecordedStepOutcome before;
    for (int k = 0; k < kPasses; ++k) {
      SCOPED_TRACE(fmt::format("pass {}", k));
      change_weights(*model.module, k);
      copy_weights(*model.module, *precise.module);
      const auto exact = outcome(precise, Precision::Float64, kind, Replay::Off, k);
      const auto evaluated = outcome(model, precision, kind, Replay::Off, k);
      const auto replayed = outcome(model, precision, kind, replay, k);
      expect_within_rounding("z", replayed.z, evaluated.z, exact.z, before.z, true);
      // In bfloat16 switched ReLUs alone move a gradient by much.
      expect_within_rounding("the gradient", replayed.gradient, evaluated.gradient, exact.gradient,
                             before.gradient, precision != Precision::BFloat16);
      before = evaluated;
    }
  }

  /// `make` gives a model's passes in one precision.
  template <class Make>
  void expect_right(const Make& make) {
    for (const auto kind : kKinds) {
      for (const auto precision : kReplayedPrecisions) {
        SCOPED_TRACE(fmt::format("kind {}, precision {}", static_cast<int>(kind),
                                 static_cast<int>(precision)));
        auto precise = make(Precision::Float64, /*dropout=*/0.0);
        auto model = make(precision, /*dropout=*/0.0);
        const auto recorded = recording_counts().made;
        expect_right(model, precise, precision, kind, Replay::Automatic);
        EXPECT_GT(recording_counts().made, recorded) << "nothing was replayed";
        auto another = make(precision, /*dropout=*/0.0);
        expect_right(another, precise, precision, kind, Replay::Checked);
        torch::cuda::synchronize();
        const c10::impl::VirtualGuardImpl device(torch::kCUDA);
        const c10::Stream other =
            device.getStreamFromGlobalPool(torch::Device(torch::kCUDA, /*index=*/0));
        const c10::StreamGuard elsewhere(other);
        SCOPED_TRACE("on another stream");
        expect_right(model, precise, precision, kind, Replay::Automatic);
        torch::cuda::synchronize();
      }
    }
  }

  /// With masks from pass to pass. Those of float64 are others, so that there is no truth to
  /// measure rounding by: half of the digits agree, and of those of gradients, in which much
  /// cancels, 3 bits less, as replay/check.cpp has it.
  template <class Make>
  void expect_right_with_dropout(const Make& make) {
    for (const auto precision : kReplayedPrecisions) {
      const double rounding = precision == Precision::Float64         ? 0x1p-53
                              : precision == Precision::Float32       ? 0x1p-24
                              : precision == Precision::TensorFloat32 ? 0x1p-11
                                                                      : 0x1p-8;
      for (const auto kind : kKinds) {
        SCOPED_TRACE(fmt::format("kind {}, precision {}", static_cast<int>(kind),
                                 static_cast<int>(precision)));
        auto model = make(precision, /*dropout=*/0.2);
        const auto recorded = recording_counts().made;
        for (int k = 0; k < kPasses; ++k) {
          SCOPED_TRACE(fmt::format("pass {}", k));
          change_weights(*model.module, k);
          const auto evaluated = outcome(model, precision, kind, Replay::Off, k);
          const auto replayed = outcome(model, precision, kind, Replay::Checked, k);
          EXPECT_LE(test::relative_difference(replayed.z, evaluated.z), std::sqrt(rounding));
          EXPECT_LE(test::relative_difference(replayed.gradient, evaluated.gradient),
                    8 * std::sqrt(rounding));
        }
        EXPECT_GT(recording_counts().made, recorded) << "nothing was replayed";
      }
    }
  }

  struct ImageModel {
    models::MdeqClassifier module;
    std::function<Pass(Kind, Replay, int)> pass;
  };
  struct TextModel {
    models::DeqTransformer module;
    std::function<Pass(Kind, Replay, int)> pass;
  };
  auto image_models();
  auto text_models();
};

/// Makes models whose i-th pass has the i-th batch.
auto RecordedStepCudaTest::image_models() {
  const auto images = torch::randn({kPasses, 4, 3, 16, 16}, generator_, test::f64()).cuda();
  const auto labels = torch::tensor({1, 2, 3, 4}).cuda();
  return [=, key = generator_.current_seed()](Precision precision, double dropout) {
    models::MdeqClassifier model(models::MdeqOptions{.dropout = dropout},
                                 torch::make_generator<at::CPUGeneratorImpl>(key));
    model->to(torch::kCUDA, storage_type(precision));
    return ImageModel{
        model, [=](Kind kind, Replay replay, int batch) mutable {
          auto output =
              model->forward(images[batch].to(storage_type(precision)), plan(kind, replay));
          auto loss = torch::nn::functional::cross_entropy(output.logits, labels);
          const auto& at = output.equilibrium;
          if (kind == Kind::Penalised) {
            loss = loss + jacobian_penalty(at.linearization(), {}, ProbeKey{.key = 3});
          }
          return Pass{loss,
                      torch::cat({at.state[0].flatten(1), at.state[1].flatten(1)}, 1).detach()};
        }};
  };
}

auto RecordedStepCudaTest::text_models() {
  const auto words = torch::randint(100, {kPasses, 3, 8}, generator_, torch::kInt64).cuda();
  return [=, key = generator_.current_seed()](Precision precision, double dropout) {
    const models::TransformerOptions small{.vocabulary = 100,
                                           .cutoffs = {40},
                                           .div_val = 2,
                                           .d_model = 20,
                                           .d_embed = 20,
                                           .heads = 2,
                                           .d_head = 10,
                                           .d_inner = 50,
                                           .tie_projections = {false, true},
                                           .dropout = dropout,
                                           .attention_dropout = dropout};
    models::DeqTransformer model(small, torch::make_generator<at::CPUGeneratorImpl>(key));
    model->to(torch::kCUDA, storage_type(precision));
    return TextModel{model, [=](Kind kind, Replay replay, int batch) mutable {
                       const auto read = words[batch];
                       auto output = model->forward(read.narrow(1, 0, 7), read.narrow(1, 1, 7), {},
                                                    plan(kind, replay));
                       auto loss = output.nll.mean();
                       const auto& at = output.reading.equilibrium;
                       if (kind == Kind::Penalised) {
                         loss = loss + jacobian_penalty(at.linearization(), {}, ProbeKey{.key = 3});
                       }
                       return Pass{loss, at.z().detach()};
                     }};
  };
}

TEST_F(RecordedStepCudaTest, MultiscaleDeq) {
  expect_right(image_models());
}

TEST_F(RecordedStepCudaTest, MultiscaleDeqWithDropout) {
  expect_right_with_dropout(image_models());
}

TEST_F(RecordedStepCudaTest, DeqTransformer) {
  expect_right(text_models());
}

TEST_F(RecordedStepCudaTest, DeqTransformerWithDropout) {
  expect_right_with_dropout(text_models());
}

}  // namespace
}  // namespace deq
