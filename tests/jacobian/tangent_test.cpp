#include "deq/jacobian/tangent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/differences.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;

class TangentTest : public test::Seeded {
 protected:
  TangentTest()
      : problem_(test::cell_problem(3, 4, 0.8, generator_)),
        x_(problem_.x.clone().requires_grad_()),
        layer_(problem_.cell, EquilibriumOptions{.forward = tight(), .replay = Replay::Off}),
        moves_{{problem_.cell->w, direction(problem_.cell->w)},
               {problem_.cell->u, direction(problem_.cell->u)},
               {x_, direction(x_)}} {}

  static SolverOptions tight() { return Broyden{.tol = {.rtol = 1e-14}, .max_evals = 200}; }
  torch::Tensor direction(const torch::Tensor& like) {
    return torch::randn(like.sizes(), generator_, f64());
  }

  test::CellProblem problem_;
  torch::Tensor x_;
  Equilibrium layer_;
  std::vector<Move> moves_;
};

TEST_F(TangentTest, IsThatOfDifferences) {
  const auto eq = layer_->forward(x_);
  const auto found = tangent(eq.linearization(), moves_, tight());
  EXPECT_EQ(found.report.status, Status::Converged);
  const torch::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  const auto moved = [&](double by) {
    for (const auto& move : moves_) move.of.add_(move.along, by);
    auto z = layer_->forward(x_).z();
    for (const auto& move : moves_) move.of.sub_(move.along, by);
    return z;
  };
  const auto expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
  EXPECT_LT(test::relative_difference(found.along, expected), 1e-8);
}

// vᵀż is the sum of the gradients of vᵀz* along the moves.
TEST_F(TangentTest, IsTheGradientsTranspose) {
  const auto eq = layer_->forward(x_);
  const auto v = torch::randn({3, 4}, generator_, f64());
  const auto found = tangent(eq.linearization(), moves_, tight());
  Equilibrium exact(problem_.cell, EquilibriumOptions{.forward = tight(),
                                                      .gradient = Implicit{.solver = tight()}});
  (v * exact->forward(x_).z()).sum().backward();
  double expected = 0;
  for (const auto& move : moves_) expected += (move.of.grad() * move.along).sum().item<double>();
  EXPECT_NEAR((v * found.along).sum().item<double>() / expected, 1, 1e-10);
}

TEST_F(TangentTest, OneMoveOfSeveralAndOneThatDoesNotMatter) {
  const auto stranger = torch::ones({2}, f64()).requires_grad_();
  const auto eq = layer_->forward(x_);
  const auto alone = tangent(eq.linearization(), {moves_[2]}, tight());
  const auto both =
      tangent(eq.linearization(), {moves_[2], {stranger, torch::ones({2}, f64())}}, tight());
  EXPECT_TRUE(alone.along.equal(both.along));
  EXPECT_EQ(tangent(eq.linearization(), {}, tight()).along.abs().max().item<double>(), 0);
}

TEST_F(TangentTest, RefusesWhatItCannotDo) {
  const auto eq = layer_->forward(x_);
  const auto refused = [&](const Move& move, const char* why) {
    EXPECT_THAT([&] { tangent(eq.linearization(), {move}); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(why)));
  };
  refused({x_.detach(), x_}, "requires grad");
  refused({x_, torch::ones({2}, f64())}, "moves along one of the same shape, not [2]");
  const auto injected = 2 * x_;
  injected.register_hook([](const torch::Tensor& g) { return g; });
  EXPECT_THAT(
      [&] {
        tangent(layer_->forward(injected).linearization(), {{injected, x_}});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a hook")));
  x_.register_hook([](const torch::Tensor& g) { return g; });
  refused({x_, x_.detach()}, "a hook");
}

}  // namespace
}  // namespace deq
