#include "deq/lab/distributed/gradient_averager.h"

#include <fmt/ostream.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>

#include "core/require.h"
#include "core/rng.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "distributed/ranks.h"
#include "support/cells.h"

// Averages over the ranks, each with its share of a batch, against one process with all of it.
// Every rank computes both.

namespace deq::lab {
namespace {

using test::expect_success;
using test::Scenario;
using Tensors = std::vector<torch::Tensor>;

constexpr int64_t kBatch = 8, kDim = 5;

torch::TensorOptions f64() {
  return torch::kFloat64;
}

torch::Tensor random(at::IntArrayRef shape, uint64_t stream) {
  return torch::randn(shape, random_stream(7, stream), f64());
}

Tensors parameters_like(const Tensors& values) {
  Tensors parameters;
  for (const auto& value : values) parameters.push_back(value.clone().requires_grad_());
  return parameters;
}

Tensors gradients(const torch::Tensor& loss, const Tensors& parameters) {
  return torch::autograd::grad({loss}, parameters, {}, {}, false, /*allow_unused=*/true);
}

void require_same_gradients(const Tensors& parameters, const Tensors& expected) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& gradient = parameters[i].grad();
    require(gradient.defined() == expected[i].defined(), "parameter {} has {} gradient", i,
            gradient.defined() ? "a" : "no");
    if (!gradient.defined()) continue;
    const auto error = (gradient - expected[i]).norm() / expected[i].norm();
    require(error.item<double>() < 1e-10, "gradient {} is off by {:g}", i, error.item<double>());
  }
}

/// The part of a batch that belongs to a rank.
torch::Tensor share(const torch::Tensor& batch, int64_t rank, int64_t size) {
  return batch.chunk(size)[static_cast<size_t>(rank)];
}

torch::Tensor network(const Tensors& p, const torch::Tensor& x) {
  // The first weight is used twice.
  return x.matmul(p[0]).tanh().matmul(p[0]).matmul(p[1]).tanh().matmul(p[2]).square().mean();
}

Tensors network_weights() {
  return {random({kDim, kDim}, 0), random({kDim, 3}, 1), random({3, 2}, 2)};
}

const Scenario kBatchInShares("batch-in-shares", [](const auto& world) {
  const auto parameters = parameters_like(network_weights());
  GradientAverager averager(world, {parameters[0], parameters[1], parameters[2], parameters[0]},
                            {.bucket_bytes = 64});
  for (int step = 0; step < 3; ++step) {
    const auto x = random({kBatch, kDim}, 10 + step);
    const auto loss = network(parameters, share(x, world->rank(), world->size()));
    averager.expect_backward(loss);
    loss.backward();
    require_same_gradients(parameters, gradients(network(parameters, x), parameters));
    for (const auto& parameter : parameters) parameter.mutable_grad().reset();
  }
});

const Scenario kAccumulated("accumulated", [](const auto& world) {
  const auto parameters = parameters_like(network_weights());
  GradientAverager averager(world, parameters);
  for (int step = 0; step < 2; ++step) {
    torch::Tensor whole;
    for (int part = 0; part < 3; ++part) {
      const auto x = random({kBatch, kDim}, 10 + 3 * step + part);
      const auto loss = network(parameters, share(x, world->rank(), world->size()));
      if (part == 2) averager.expect_backward(loss);
      loss.backward();
      whole = part == 0 ? network(parameters, x) : whole + network(parameters, x);
    }
    require_same_gradients(parameters, gradients(whole, parameters));
    for (const auto& parameter : parameters) parameter.mutable_grad().reset();
  }
});

/// Nobody uses the last parameter at first, only rank 0 in the second step, all in the third.
const Scenario kUnused("unused", [](const auto& world) {
  const auto parameters = parameters_like({random({4}, 0), random({4}, 1)});
  GradientAverager averager(world, parameters, {.bucket_bytes = 8});
  for (int step = 0; step < 3; ++step) {
    const auto loss = [&](int64_t rank) {
      const bool uses_both = step == 2 || (step == 1 && rank == 0);
      return (parameters[0] * (rank + 1.0)).square().sum() +
             (uses_both ? parameters[1].square().sum() : torch::zeros({}, f64()));
    };
    const auto own = loss(world->rank());
    averager.expect_backward(own);
    own.backward();
    auto whole = torch::zeros({}, f64());
    for (int64_t rank = 0; rank < world->size(); ++rank) whole = whole + loss(rank);
    require_same_gradients(parameters, gradients(whole / world->size(), parameters));
    for (const auto& parameter : parameters) parameter.mutable_grad().reset();
  }
});

/// An equilibrium layer and its Jacobian penalty: backward solves, and calls autograd from within.
const Scenario kImplicit("implicit", [](const auto& world) {
  const auto precise = Broyden{.tol = {.rtol = 1e-13}, .max_evals = 200};
  const auto problem = test::cell_problem(kBatch, kDim, 0.8, random_stream(7, 0));
  Equilibrium layer(problem.cell, EquilibriumOptions{.forward = precise,
                                                     .gradient = Implicit{.solver = precise}});
  const auto head = random({kDim, 1}, 3).requires_grad_();
  const Tensors parameters{problem.cell->w, problem.cell->u, head};
  const auto fit = [&](const Equilibrated& at) { return at.z().matmul(head).square().mean(); };
  const auto penalty = [&](const Equilibrated& at, int64_t rank) {
    return jacobian_penalty(at.linearization(), {}, random_stream(8, static_cast<uint64_t>(rank)));
  };
  const auto part = [&](int64_t rank) {
    return layer->forward(share(problem.x, rank, world->size()));
  };

  auto whole = fit(layer->forward(problem.x));
  for (int64_t rank = 0; rank < world->size(); ++rank) {
    whole = whole + penalty(part(rank), rank) / world->size();
  }
  const auto expected = gradients(whole, parameters);

  GradientAverager averager(world, parameters, {.bucket_bytes = 64});
  const auto at = part(world->rank());
  const auto loss = fit(at) + penalty(at, world->rank());
  averager.expect_backward(loss);
  loss.backward();
  require_same_gradients(parameters, expected);
});

const Scenario kBroadcast("broadcast", [](const auto& world) {
  const auto weights = parameters_like({torch::full({3}, world->rank() + 1.0, f64()),
                                        torch::full({2, 2}, world->rank() + 5.0, f64())});
  broadcast_from_main(*world, weights);
  require(weights[0].equal(torch::full({3}, 1.0, f64())), "first: {}", fmt::streamed(weights[0]));
  require(weights[1].equal(torch::full({2, 2}, 5.0, f64())), "second: {}",
          fmt::streamed(weights[1]));
});

const Scenario kOtherShapes("other-shapes", [](const auto& world) {
  const GradientAverager averager(world, {torch::ones({2 + world->rank()}).requires_grad_()});
});

TEST(GradientAverager, DoesNothingAlone) {
  const auto weight = torch::ones({2}).requires_grad_();
  GradientAverager averager(World::alone(), {weight});
  const auto loss = weight.sum();
  averager.expect_backward(loss);
  loss.backward();
  EXPECT_TRUE(torch::equal(weight.grad(), torch::ones({2})));
}

TEST(GradientAverager, RefusesWhatItCannotAverage) {
  EXPECT_THROW(GradientAverager(World::alone(), {torch::ones({2})}), Error);
  EXPECT_THROW(
      GradientAverager(World::alone(), {torch::ones({2}).requires_grad_()}, {.bucket_bytes = 0}),
      Error);
}

TEST(GradientAverager, SharesOfABatch) {
  expect_success(2, "batch-in-shares");
  expect_success(4, "batch-in-shares");
}

TEST(GradientAverager, AccumulatedGradients) {
  expect_success(2, "accumulated");
}

TEST(GradientAverager, UnusedParameters) {
  expect_success(2, "unused");
}

TEST(GradientAverager, ImplicitGradientsWithPenalty) {
  expect_success(2, "implicit");
  expect_success(4, "implicit");
}

TEST(GradientAverager, ParametersOfRankZero) {
  expect_success(2, "broadcast");
}

TEST(GradientAverager, RefusesDifferentModels) {
  const auto outcomes = test::run_ranks(2, "other-shapes");
  EXPECT_EQ(outcomes[0].output, outcomes[1].output);
  EXPECT_EQ(outcomes[0].output,
            "the list of parameters must be the same on all ranks, and is another on rank 1 of 2: "
            "line 1 is \"Float [3]\", on rank 0 \"Float [2]\"\n");
}

}  // namespace
}  // namespace deq::lab
