#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/nn/equilibrium.h"
#include "support/seed.h"

namespace deq {
namespace {

struct TanhCellImpl : torch::nn::Module {
  explicit TanhCellImpl(int64_t dim) : w(register_module("w", torch::nn::Linear(dim, dim))) {}
  torch::Tensor forward(const torch::Tensor& z, const torch::Tensor& x) {
    return torch::tanh(w(z) + x);
  }
  torch::nn::Linear w;
};
TORCH_MODULE(TanhCell);

constexpr double kTolerance = 1e-4;  // products in bfloat16 leave about 1e-3

class Float32EvalsTest : public test::Seeded {
 protected:
  Float32EvalsTest() : cell_(32), x_(torch::randn({5, 32}, generator_)) {
    const torch::NoGradGuard no_grad;
    cell_->w->weight.copy_(torch::randn({32, 32}, generator_) * 0.12);
  }

  Equilibrium layer(int64_t float32_evals) {
    return Equilibrium(
        cell_, EquilibriumOptions{.forward = Anderson{.tol = {.rtol = kTolerance}, .max_evals = 12},
                                  .float32_evals = float32_evals});
  }

  /// In float32.
  double residual(const torch::Tensor& z) {
    const torch::NoGradGuard no_grad;
    const auto f = cell_->forward(z, x_);
    return ((f - z).norm(2, 1) / f.norm(2, 1)).max().item<double>();
  }

  TanhCell cell_;
  torch::Tensor x_;
};

TEST_F(Float32EvalsTest, ReachATolerance) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope rounded(Precision::BFloat16, torch::kCPU);
  auto short_of_it = layer(0);
  short_of_it->eval();
  const auto before = short_of_it->forward(x_);
  auto finishing = layer(12);
  finishing->eval();
  const auto after = finishing->forward(x_);
  const PrecisionScope exact(Precision::Float32, torch::kCPU);
  EXPECT_GT(residual(before.z()), kTolerance);
  EXPECT_LE(residual(after.z()), 1.01 * kTolerance);
  EXPECT_TRUE(after.report.converged()) << after.report.brief();
  EXPECT_GT(after.report.evaluations, before.report.evaluations);
  EXPECT_EQ(after.report.trace.back().evaluations, after.report.evaluations);
  EXPECT_EQ(after.report.trace.size(), static_cast<size_t>(after.report.evaluations));
  for (const auto& sample : after.report.samples) {
    EXPECT_LE(sample.evaluations, after.report.evaluations);
    EXPECT_LE(sample.relative, kTolerance);
  }
}

TEST_F(Float32EvalsTest, NoneInTrainingNorWithoutAutocast) {
  auto plain = layer(0), finishing = layer(12);
  const auto same = [&](const char* when) {
    const auto a = plain->forward(x_), b = finishing->forward(x_);
    EXPECT_EQ(a.report.evaluations, b.report.evaluations) << when;
    EXPECT_TRUE(a.z().equal(b.z())) << when;
  };
  {
    const PrecisionScope rounded(Precision::BFloat16, torch::kCPU);
    same("training");
  }
  const torch::NoGradGuard no_grad;
  plain->eval();
  finishing->eval();
  same("in float32");
}

TEST_F(Float32EvalsTest, RefusesANegativeNumber) {
  EXPECT_THROW(layer(-1), Error);
}

TEST_F(Float32EvalsTest, NoneOnceTheCallerHasStopped) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope rounded(Precision::BFloat16, torch::kCPU);
  auto finishing = layer(12);
  finishing->eval();
  const auto eq = finishing->forward(
      {x_}, {.callback = [](const Progress& progress) { return progress.point.evaluations < 2; }});
  EXPECT_EQ(eq.report.evaluations, 2);
  EXPECT_EQ(eq.report.status, Status::UserStopped);
}

}  // namespace
}  // namespace deq
