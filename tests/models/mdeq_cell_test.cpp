#include "deq/models/mdeq/cell.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/core/linearization.h"
#include "deq/core/precision.h"
#include "mdeq_small.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;
using test::small_mdeq;

/// The cell's formula in plain torch, from the parameters by name: nothing in place, nothing
/// shared. For one block per scale, in groups of two.
struct PlainMdeq {
  torch::OrderedDict<std::string, torch::Tensor> parameters;

  torch::Tensor normed(const torch::Tensor& x, const std::string& name, int64_t groups = 2) const {
    const auto* weight = parameters.find(name + ".weight");
    if (weight == nullptr) return torch::group_norm(x, groups);
    return torch::group_norm(x, groups, *weight, parameters[name + ".bias"]);
  }

  torch::Tensor conv(const torch::Tensor& x, const std::string& name, int64_t stride = 1) const {
    torch::Tensor w;
    if (const auto* v = parameters.find(name + ".weight_v")) {
      w = parameters[name + ".weight_g"] * *v / v->square().sum({1, 2, 3}, true).sqrt();
    } else {
      w = parameters[name + ".weight"];
    }
    return torch::conv2d(x, w, {}, stride, w.size(2) / 2);
  }

  State step(const State& z, const torch::Tensor& injection) const {
    State y, fused;
    for (size_t i = 0; i < z.size(); ++i) {
      const auto at = fmt::format("branches.{}.blocks.0.", i);
      auto x = conv(normed(conv(z[i], at + "conv1"), at + "gn1").relu(), at + "conv2");
      if (i == 0) x = x + injection;
      y.push_back(normed((normed(x, at + "gn2") + z[i]).relu(), at + "gn3"));
    }
    for (size_t i = 0; i < z.size(); ++i) {
      auto sum = y[i];
      for (size_t j = 0; j < z.size(); ++j) {
        if (j != i) sum = sum + resampled(y[j], j, i);
      }
      const auto at = fmt::format("post_fuse_layers.{}", i);
      fused.push_back(normed(conv(sum.relu(), at + ".conv"), at + ".gnorm", 1));
    }
    return fused;
  }

  torch::Tensor resampled(torch::Tensor x, size_t from, size_t to) const {
    const auto name = fmt::format("fuse_layers.{}.{}.net", to, from);
    if (from > to) {
      const auto times = int64_t{1} << (from - to);
      x = normed(conv(x, name + ".conv"), name + ".gnorm");
      return x.repeat_interleave(times, 2).repeat_interleave(times, 3);
    }
    for (size_t k = 0; from + k < to; ++k) {
      const auto at = fmt::format("{}.{}", name, k);
      x = normed(conv(k > 0 ? x.relu() : x, at + ".conv", 2), at + ".gnorm");
    }
    return x;
  }
};

class MdeqCellTest : public test::Seeded {
 protected:
  MdeqCell make(const MdeqOptions& options) {
    MdeqCell cell(options, generator_);
    cell->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;  // no parameter at a value that hides it, such as 0 or 1
    for (auto& parameter : cell->parameters()) {
      parameter.add_(torch::randn(parameter.sizes(), generator_, f64()), 0.2);
    }
    return cell;
  }
  torch::Tensor draw(c10::IntArrayRef shape) { return torch::randn(shape, generator_, f64()); }
  State random_state(MdeqCell cell, const torch::Tensor& injection) {
    State z;
    for (const auto& zeros : cell->initial_state({injection})) z.push_back(draw(zeros.sizes()));
    return z;
  }
};

TEST_F(MdeqCellTest, TheStepIsTheFormula) {
  for (const bool weight_norm : {true, false}) {
    auto options = small_mdeq(4);
    options.weight_norm = weight_norm;
    options.post_norm_affine = !weight_norm;
    auto cell = make(options);
    const auto injection = draw({2, 4, 8, 8});
    const auto z = random_state(cell, injection);
    const auto context = cell->prepare({injection});
    const auto step = cell->step(z, context);
    const auto again = cell->step(z, context);  // the same context and state serve many steps
    const auto expected = PlainMdeq{cell->named_parameters()}.step(z, injection);
    for (size_t i = 0; i < z.size(); ++i) {
      EXPECT_LT(relative_difference(step[i], expected[i]), 1e-13) << "scale " << i;
      EXPECT_TRUE(step[i].equal(again[i])) << "scale " << i;
    }
  }
}

TEST_F(MdeqCellTest, ItsProductsWithJAndTheirGradientsAreTheFormulas) {
  auto cell = make(small_mdeq(3));
  const auto injection = draw({2, 4, 8, 8}).requires_grad_();
  const auto z = random_state(cell, injection);
  const auto layout = StateLayout::of(z);
  const auto v = draw({2, layout.dim()});
  auto variables = cell->parameters();
  variables.push_back(injection);
  // vᵀJ, and the gradients of ‖vᵀJ‖² with respect to all variables.
  const auto products = [&](const std::function<State(const State&)>& f) {
    const auto slab = layout.pack(z).requires_grad_();
    const Linearization at(slab, layout.pack(f(layout.unpack(slab))));
    const auto product = at.vjp(v, /*differentiable=*/true);
    auto all = torch::autograd::grad({product.square().sum()}, variables, {}, /*retain_graph=*/{},
                                     /*create_graph=*/false, /*allow_unused=*/true);
    all.push_back(product);
    return all;
  };
  const auto context = cell->prepare({injection});
  const PlainMdeq plain{cell->named_parameters()};
  const auto own = products([&](const State& s) { return cell->step(s, context); });
  const auto expected = products([&](const State& s) { return plain.step(s, injection); });
  for (size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(own[i].defined(), expected[i].defined()) << i;
    if (!own[i].defined()) continue;
    EXPECT_LT(relative_difference(own[i], expected[i]), 1e-10) << i;
  }
}

TEST_F(MdeqCellTest, BFloat16ReachesEveryParameter) {
  // A solve takes steps off the tape before the one that is differentiated; what autocast keeps of
  // the first must not stand in for the casts of the second.
  auto cell = make(small_mdeq(3));
  cell->to(torch::kFloat32);
  const auto injection = draw({4, 4, 16, 16}).to(torch::kFloat32);
  State z;
  for (const auto& part : random_state(cell, injection)) z.push_back(part.to(torch::kFloat32));
  const auto layout = StateLayout::of(z);
  const auto v = draw({4, layout.dim()}).to(torch::kFloat32);
  const auto gradients = [&](Precision precision) {
    const PrecisionScope scope(precision, torch::kCPU);
    const auto context = cell->prepare({injection});
    {
      const torch::NoGradGuard no_grad;
      cell->step(z, context);
    }
    const auto product = (v * layout.pack(cell->step(z, context))).sum();
    return torch::autograd::grad({product}, cell->parameters());
  };
  const auto names = cell->named_parameters().keys();
  const auto exact = gradients(Precision::Float32), rounded = gradients(Precision::BFloat16);
  std::vector<torch::Tensor> all_exact, all_rounded;
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_TRUE(rounded[i].ne(0).any().item<bool>()) << names[i];
    all_exact.push_back(exact[i].flatten());
    all_rounded.push_back(rounded[i].flatten());
  }
  // Eight bits, in sums that mostly cancel.
  const auto cosine = torch::cosine_similarity(torch::cat(all_exact), torch::cat(all_rounded), 0);
  EXPECT_GT(cosine.item<double>(), 0.9);
}

TEST_F(MdeqCellTest, DropoutIsDrawnOnceASolveAndOnlyInTraining) {
  auto options = small_mdeq(2);
  options.dropout = 0.5;
  auto cell = make(options);
  const auto injection = draw({4, 4, 4, 4});
  const auto z = random_state(cell, injection);
  const auto layout = StateLayout::of(z);
  const auto step = [&](const Context& context) { return layout.pack(cell->step(z, context)); };
  const auto first = cell->prepare({injection});
  const auto second = cell->prepare({injection});
  EXPECT_TRUE(step(first).equal(step(first)));
  EXPECT_FALSE(step(first).equal(step(second)));
  cell->eval();
  const auto none = step(cell->prepare({injection}));
  const auto expected = PlainMdeq{cell->named_parameters()}.step(z, injection);
  EXPECT_LT(relative_difference(none, layout.pack(expected)), 1e-13);
  EXPECT_FALSE(none.equal(step(first)));
}

TEST_F(MdeqCellTest, ADroppedChannelIsOnlyItsInjection) {
  // With every channel of the block dropped, f no longer depends on conv2.
  auto options = small_mdeq(1);
  options.dropout = 1 - 1e-12;
  auto cell = make(options);
  const auto injection = draw({2, 4, 4, 4});
  const auto z = random_state(cell, injection);
  const PlainMdeq plain{cell->named_parameters()};
  const auto y = plain.normed(injection, "branches.0.blocks.0.gn2") + z[0];
  const auto expected = plain.normed(y.relu(), "branches.0.blocks.0.gn3");
  const auto step = cell->step(z, cell->prepare({injection}))[0];
  EXPECT_LT(relative_difference(step, expected), 1e-13);
}

}  // namespace
}  // namespace deq::models
