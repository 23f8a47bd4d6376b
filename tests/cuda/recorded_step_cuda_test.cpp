#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq.h"
#include "deq/models/transformer.h"
#include "deq/train/precision.h"
#include "gpu_test.h"
#include "support/maps.h"

// Steps replayed as CUDA graphs, against the first pass of a layer, which is never recorded.

namespace deq {
namespace {

struct Pass {
  torch::Tensor loss, z;
};

struct Outcome {
  torch::Tensor loss, z;
  std::vector<torch::Tensor> gradients;
};

struct Case {
  Precision precision;
  double tolerance;  // of what is evaluated in this precision, against float64
};

// In bfloat16 a gradient that is a sum of many small ones has few digits left.
constexpr Case kCases[] = {
    {Precision::Float64, 1e-9}, {Precision::Float32, 0.01}, {Precision::BFloat16, 0.5}};

double norm_of(const std::vector<torch::Tensor>& tensors) {
  double squares = 0;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) squares += tensor.square().sum().item<double>();
  }
  return std::sqrt(squares);
}

/// A pass's gradient.
enum class Kind { Implicit, Penalised, Unrolled };
constexpr Kind kKinds[] = {Kind::Implicit, Kind::Penalised, Kind::Unrolled};

EquilibriumPlan plan(Kind kind) {
  const Anderson solver{.tol = {.rtol = 0}, .max_evals = 6};
  if (kind == Kind::Unrolled) {
    return EquilibriumPlan({.forward = solver, .gradient = Unrolled{.steps = 4, .replayed = true}});
  }
  return EquilibriumPlan({.forward = solver, .gradient = Implicit{.solver = solver}});
}

class RecordedStepCudaTest : public test::GpuTest {
 protected:
  static Outcome differentiate(torch::nn::Module& model, Precision precision,
                               const std::function<Pass()>& pass) {
    for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
    Pass result;
    {
      const PrecisionScope scope(precision, torch::kCUDA);
      result = pass();
    }
    result.loss.backward();
    Outcome outcome{result.loss.detach(), result.z, {}};
    for (const auto& parameter : model.parameters()) {
      outcome.gradients.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                                             : torch::Tensor());
    }
    return outcome;
  }

  static void expect_close(const torch::nn::Module& model, const Outcome& own,
                           const Outcome& expected, double tolerance) {
    const auto wide = [](const torch::Tensor& tensor) { return tensor.to(torch::kFloat64); };
    EXPECT_LT(test::relative_difference(wide(own.z), wide(expected.z)), tolerance);
    EXPECT_LT(test::relative_difference(wide(own.loss), wide(expected.loss)), tolerance);
    // Some gradients are zero but for rounding, as those of a bias before a batch norm.
    const double smallest = 1e-2 * norm_of(expected.gradients);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      ASSERT_EQ(own.gradients[i].defined(), expected.gradients[i].defined()) << i;
      if (!own.gradients[i].defined()) continue;
      const double error = norm_of({wide(own.gradients[i]) - wide(expected.gradients[i])});
      EXPECT_LT(error / std::max(smallest, norm_of({expected.gradients[i]})), tolerance)
          << model.named_parameters().keys()[i];
    }
  }

  /// The first pass of a model is evaluated, the others are replayed.
  void expect_close_to(const Outcome& exact, torch::nn::Module& model, const Case& test, Kind kind,
                       const std::function<Pass()>& pass) {
    // Through several steps in bfloat16 the evaluated gradient itself has no digit left in places.
    const bool judged = kind != Kind::Unrolled || test.precision != Precision::BFloat16;
    SCOPED_TRACE(c10::str("precision ", static_cast<int>(test.precision)));
    const auto evaluated = differentiate(model, test.precision, pass);
    if (judged) expect_close(model, evaluated, exact, test.tolerance);
    for (int k = 0; k < 3; ++k) {
      SCOPED_TRACE(c10::str("replay ", k));
      // Recorded convolutions may be other algorithms, whose rounding differs.
      expect_close(model, differentiate(model, test.precision, pass), evaluated, test.tolerance);
    }
    torch::cuda::synchronize();
    const c10::impl::VirtualGuardImpl device(torch::kCUDA);
    const c10::StreamGuard elsewhere(device.getStreamFromGlobalPool(exact.z.device()));
    for (int k = 0; k < 3; ++k) {
      SCOPED_TRACE(c10::str("on another stream, pass ", k));
      expect_close(model, differentiate(model, test.precision, pass), evaluated, test.tolerance);
    }
    torch::cuda::synchronize();
  }
};

TEST_F(RecordedStepCudaTest, MultiscaleDeq) {
  const auto images = torch::randn({4, 3, 16, 16}, generator_, test::f64()).cuda();
  const auto labels = torch::tensor({1, 2, 3, 4}).cuda();
  for (const auto kind : kKinds) {
    SCOPED_TRACE(c10::str("kind ", static_cast<int>(kind)));
    const auto key = generator_.current_seed();
    const auto pass_of = [&](MdeqClassifier& model, Precision precision) {
      return [&, precision] {
        auto output = model->forward(images.to(storage_type(precision)), plan(kind));
        auto loss = torch::nn::functional::cross_entropy(output.logits, labels);
        const auto& equilibrium = output.equilibrium;
        if (kind == Kind::Penalised) {
          loss = loss + jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{.key = 3});
        }
        return Pass{
            loss, torch::cat({equilibrium.state[0].flatten(1), equilibrium.state[1].flatten(1)}, 1)
                      .detach()};
      };
    };
    const auto make = [&](Precision precision) {
      MdeqClassifier model(MdeqOptions{.dropout = 0},
                           torch::make_generator<at::CPUGeneratorImpl>(key));
      model->to(torch::kCUDA, storage_type(precision));
      return model;
    };
    auto precise = make(Precision::Float64);
    const auto exact =
        differentiate(*precise, Precision::Float64, pass_of(precise, Precision::Float64));
    for (const auto& test : kCases) {
      auto model = make(test.precision);
      expect_close_to(exact, *model, test, kind, pass_of(model, test.precision));
    }
  }
}

TEST_F(RecordedStepCudaTest, DeqTransformer) {
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
  const auto words = torch::randint(100, {3, 8}, generator_, torch::kInt64).cuda();
  for (const auto kind : kKinds) {
    SCOPED_TRACE(c10::str("kind ", static_cast<int>(kind)));
    const auto key = generator_.current_seed();
    const auto pass_of = [&](DeqTransformer& model) {
      return [&] {
        auto output = model->forward(words.narrow(1, 0, 7), words.narrow(1, 1, 7), {}, plan(kind));
        auto loss = output.nll.mean();
        const auto& equilibrium = output.reading.equilibrium;
        if (kind == Kind::Penalised) {
          loss = loss + jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{.key = 3});
        }
        return Pass{loss, equilibrium.z().detach()};
      };
    };
    const auto make = [&](Precision precision) {
      DeqTransformer model(small, torch::make_generator<at::CPUGeneratorImpl>(key));
      model->to(torch::kCUDA, storage_type(precision));
      return model;
    };
    auto precise = make(Precision::Float64);
    const auto exact = differentiate(*precise, Precision::Float64, pass_of(precise));
    for (const auto& test : kCases) {
      auto model = make(test.precision);
      expect_close_to(exact, *model, test, kind, pass_of(model));
    }
  }
}

}  // namespace
}  // namespace deq
