#include "deq/models/monotone/cell.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/core/error.h"
#include "deq/nn/equilibrium.h"
#include "monotone_dense.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::DenseMonotone;
using test::f64;
using test::relative_difference;
using test::small_monotone;
using test::small_monotone_cell;
using torch::Tensor;

constexpr Tolerance kMonotoneCellTight{.rtol = 1e-13};

class MonotoneCells : public test::Seeded {
 protected:
  Tensor draw(c10::IntArrayRef shape) { return torch::randn(shape, generator_, f64()); }
  /// Images with their border of zeros.
  Tensor images(const MonotoneOptions& options, int64_t batch = 2) {
    return torch::constant_pad_nd(
        3 * draw({batch, options.image_channels, options.image_size, options.image_size}),
        {1, 1, 1, 1});
  }
  /// The same parameters under another splitting.
  static MonotoneCell with(MonotoneOptions options, MonotoneCell like, Splitting splitting,
                           double alpha) {
    options.splitting = splitting;
    options.alpha = alpha;
    MonotoneCell cell(options);
    cell->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : cell->named_parameters()) {
      item.value().copy_(like->named_parameters()[item.key()]);
    }
    return cell;
  }
  /// An alpha with which forward–backward contracts: m/L².
  static double small_alpha(const MonotoneOptions& options, const DenseMonotone& dense) {
    const auto norm = torch::linalg_matrix_norm(dense.m(), 2).item<double>();
    return options.strength / (norm * norm);
  }
  static Tensor packed(const State& state) { return StateLayout::of(state).pack(state); }
};

TEST_F(MonotoneCells, AStepIsTheFormula) {
  for (const auto& options : small_monotone()) {
    auto like = small_monotone_cell(options, generator_);
    const DenseMonotone dense(options, *like);
    const auto image = images(options);
    const double alpha = 0.6;
    const auto layout = StateLayout::of(like->initial_state({image}));
    const auto start = draw({2, layout.dim()});
    const auto c = dense.injection(image);
    const auto stepped = [&](Splitting splitting) {
      auto cell = with(options, like, splitting, alpha);
      return packed(cell->step(layout.unpack(start), cell->prepare({image})));
    };
    const auto m = dense.m();
    EXPECT_LT(
        relative_difference(stepped(Splitting::ForwardBackward),
                            dense.rectified(start - alpha * (torch::matmul(start, m.t()) - c))),
        1e-13);
    const auto v = torch::inverse(torch::eye(m.size(0), f64()) + alpha * m);
    const auto reflected = 2 * dense.rectified(start) - start;
    EXPECT_LT(relative_difference(stepped(Splitting::PeacemanRachford),
                                  2 * torch::matmul(reflected + alpha * c, v.t()) - reflected),
              1e-12);
  }
}

TEST_F(MonotoneCells, EverySplittingAndSolverFindsTheOneSolutionFromAnywhere) {
  for (const auto& options : small_monotone()) {
    auto like = small_monotone_cell(options, generator_);
    const DenseMonotone dense(options, *like);
    const auto image = images(options);
    const auto expected = dense.solution(image);
    ASSERT_GT(expected.gt(0).sum().item<int64_t>(), 10);
    ASSERT_GT((dense.mask - expected.gt(0).to(f64())).clamp_min(0).sum().item<double>(), 10);
    const struct {
      const char* what;
      Splitting splitting;
      double alpha;
      SolverOptions solver;
    } ways[] = {
        {"Peaceman–Rachford", Splitting::PeacemanRachford, 0.3,
         Picard{.tol = kMonotoneCellTight, .max_evals = 4000}},
        {"Peaceman–Rachford, large alpha", Splitting::PeacemanRachford, 3.0,
         Picard{.tol = kMonotoneCellTight, .max_evals = 4000}},
        {"Anderson on Peaceman–Rachford", Splitting::PeacemanRachford, 0.3,
         Anderson{.tol = kMonotoneCellTight, .max_evals = 1000}},
        {"forward–backward", Splitting::ForwardBackward, small_alpha(options, dense),
         Picard{.tol = kMonotoneCellTight, .max_evals = 20000, .guards = {.stagnation_window = 0}}},
        {"Broyden on Peaceman–Rachford", Splitting::PeacemanRachford, 0.3,
         Broyden{.memory = 200, .tol = kMonotoneCellTight, .max_evals = 2000}},
        {"Newton–Krylov on the plain map", Splitting::ForwardBackward, 1.0,
         NewtonKrylov{.krylov_dim = 120, .tol = kMonotoneCellTight, .max_evals = 6000}},
    };
    for (const auto& way : ways) {
      auto cell = with(options, like, way.splitting, way.alpha);
      Equilibrium layer(cell, EquilibriumOptions{.forward = way.solver});
      for (int start = 0; start < 2; ++start) {
        const auto layout = StateLayout::of(cell->initial_state({image}));
        const torch::NoGradGuard no_grad;
        const auto eq =
            layer->forward({image}, {.start = layout.unpack(4 * draw({2, layout.dim()}))});
        EXPECT_LT(relative_difference(packed(cell->equilibrium(eq.state)), expected), 1e-9)
            << way.what << " on " << options.tiers() << " tiers: " << eq.report.brief();
      }
    }
  }
}

TEST_F(MonotoneCells, PeacemanRachfordConvergesWhereForwardBackwardDiverges) {
  for (const auto& options : small_monotone()) {
    auto like = small_monotone_cell(options, generator_, /*gain=*/6);
    const auto image = images(options);
    for (const auto splitting : {Splitting::PeacemanRachford, Splitting::ForwardBackward}) {
      Equilibrium layer(
          with(options, like, splitting, 2.0),
          EquilibriumOptions{.forward = Picard{.tol = {.rtol = 1e-10}, .max_evals = 3000}});
      const torch::NoGradGuard no_grad;
      const auto eq = layer->forward(image);
      EXPECT_EQ(eq.report.status,
                splitting == Splitting::PeacemanRachford ? Status::Converged : Status::Diverged)
          << eq.report.brief();
    }
  }
}

TEST_F(MonotoneCells, GradientsAreThoseOfTheDenseSolution) {
  for (const auto& options : small_monotone()) {
    auto like = small_monotone_cell(options, generator_);
    const auto image = images(options).requires_grad_();
    const DenseMonotone dense(options, *like);
    auto variables = like->parameters();
    variables.push_back(image);
    const auto solution = dense.solution(image);
    const auto weights = draw(solution.sizes());
    const auto expected = torch::autograd::grad({(weights * solution).sum()}, variables);
    for (const auto splitting : {Splitting::PeacemanRachford, Splitting::ForwardBackward}) {
      const bool reflecting = splitting == Splitting::PeacemanRachford;
      auto cell = with(options, like, splitting, reflecting ? 0.5 : small_alpha(options, dense));
      const SolverOptions solver = Anderson{
          .tol = kMonotoneCellTight, .max_evals = 5000, .guards = {.stagnation_window = 0}};
      Equilibrium layer(
          cell, EquilibriumOptions{.forward = solver, .gradient = Implicit{.solver = solver}});
      const auto z = packed(cell->equilibrium(layer->forward(image).state));
      variables = cell->parameters();
      variables.push_back(image);
      const auto gradients = torch::autograd::grad({(weights * z).sum()}, variables);
      for (size_t k = 0; k < gradients.size(); ++k) {
        EXPECT_GT(expected[k].abs().max().item<double>(), 0) << k;
        EXPECT_LT(relative_difference(gradients[k], expected[k]), 1e-8)
            << (k + 1 < gradients.size() ? cell->named_parameters().keys()[k] : "image") << ", "
            << options.tiers() << " tiers, " << (reflecting ? "reflecting" : "forward–backward");
      }
    }
  }
}

TEST_F(MonotoneCells, StaysMonotoneWhereAGainIsNegative) {
  const auto options = small_monotone().back();
  auto cell = small_monotone_cell(options, generator_);
  const auto image = images(options);
  auto mirrored = with(options, cell, options.splitting, options.alpha);
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : mirrored->named_parameters()) {
      if (item.key().starts_with("g")) item.value().neg_();
    }
  }
  const auto z = cell->initial_state({image});
  const auto expected = packed(cell->step(z, cell->prepare({image})));
  EXPECT_TRUE(packed(mirrored->step(z, mirrored->prepare({image}))).equal(expected));
}

TEST_F(MonotoneCells, OptionsAndShapesThatCannotBeAreNamed) {
  const auto message = [](const auto& attempt) {
    try {
      attempt();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  const auto with_change = [&](const auto& change) {
    auto options = small_monotone()[1];
    change(options);
    return message([&] { MonotoneCell cell(options); });
  };
  EXPECT_EQ(with_change([](auto& o) { o.image_size = 7; }),
            "monotone: image_size = 7, must be a multiple of 2 to be halved for each of 2 tiers");
  EXPECT_EQ(with_change([](auto& o) { o.strength = 0; }), "monotone: strength = 0, must be > 0");
  EXPECT_EQ(with_change([](auto& o) { o.alpha = -1; }), "monotone: alpha = -1, must be > 0");
  EXPECT_EQ(with_change([](auto& o) { o.channels = {}; }),
            "monotone: channels has 0 entries, must have 1 to 16, one per tier");
  EXPECT_EQ(with_change([](auto& o) { o.channels[1] = 0; }), "monotone: channels = 0, must be ≥ 1");
  MonotoneCell cell(small_monotone()[1]);
  EXPECT_EQ(message([&] {
              cell->initial_state({torch::zeros({2, 2, 6, 6})});
            }),
            "monotone: an image with border of shape [2, 2, 6, 6], must be [B, 2, 8, 8]");
}

}  // namespace
}  // namespace deq::models
