#include "kernels/norms/group_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "deq/core/error.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

using test::relative_difference;

struct GroupNormCase {
  int64_t channels, groups, height, width;
  bool affine, addend, relu;
};

std::vector<GroupNormCase> cases() {
  std::vector<GroupNormCase> all;
  for (const auto& [channels, groups] : {std::pair<int64_t, int64_t>{24, 8}, {120, 8}, {5, 5}}) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 3}, {8, 8}, {7, 5}}) {
      for (const int bits : {0, 1, 2, 3, 4, 5, 6, 7}) {
        all.push_back(
            {channels, groups, height, width, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
      }
    }
  }
  return all;
}

std::ostream& operator<<(std::ostream& out, const GroupNormCase& c) {
  return out << c.channels << " channels in " << c.groups << " groups, " << c.height << "×"
             << c.width << (c.affine ? ", affine" : "") << (c.addend ? ", addend" : "")
             << (c.relu ? ", ReLU" : "");
}

class GroupNormTest : public test::SeededWith<at::ScalarType> {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64).to(GetParam());
  }

  struct Inputs {
    at::Tensor x{}, weight{}, bias{}, addend{};
    GroupNormOptions options{};

    std::vector<at::Tensor> variables() const {
      std::vector<at::Tensor> defined;
      for (const auto& input : {x, weight, bias, addend}) {
        if (input.defined()) defined.push_back(input);
      }
      return defined;
    }
    std::vector<at::Tensor> images() const {
      return addend.defined() ? std::vector{x, addend} : std::vector{x};
    }
    /// Leaves of another type with the same values.
    Inputs as(at::ScalarType type) const {
      const auto leaf = [type](const at::Tensor& t) {
        return t.defined() ? t.detach().to(type).requires_grad_() : t;
      };
      return {leaf(x), leaf(weight), leaf(bias), leaf(addend), options};
    }
  };

  Inputs inputs(const GroupNormCase& c) {
    // x in the order that convolutions give, the addend as a part of a slab.
    const auto images = draw({3, c.channels, c.height, c.width}).add_(0.5);
    Inputs in{.x = images.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_()};
    if (c.affine) {
      in.weight = draw({c.channels}).requires_grad_();
      in.bias = draw({c.channels}).requires_grad_();
    }
    if (c.addend) {
      const auto size = c.channels * c.height * c.width;
      in.addend = draw({3, size + 3})
                      .narrow(1, 2, size)
                      .view({3, c.height, c.width, c.channels})
                      .permute({0, 3, 1, 2})
                      .requires_grad_();
    }
    in.options = {.groups = c.groups, .relu = c.relu};
    return in;
  }

  double bound() const { return GetParam() == at::kFloat ? 5e-6 : 1e-13; }
};

at::Tensor own(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
               const at::Tensor& addend, const GroupNormOptions& options) {
  return group_norm(x, weight, bias, addend, options);
}

/// y; the gradients for all inputs, or only for the images; the gradients, for inputs and ∂y, of a
/// function of those.
template <class Function, class In>
std::vector<at::Tensor> group_norm_derivatives(const Function& f, const In& in, const at::Tensor& g,
                                               bool images_alone) {
  const auto y = f(in.x, in.weight, in.bias, in.addend, in.options);
  auto variables = in.variables();
  std::vector<at::Tensor> all{y};
  for (const auto& plain : torch::autograd::grad({y}, variables, {g}, /*retain_graph=*/true)) {
    all.push_back(plain);
  }
  const auto first =
      torch::autograd::grad({y}, images_alone ? in.images() : variables, {g}, /*retain_graph=*/true,
                            /*create_graph=*/true);
  at::Tensor scalar = first[0].square().sum();
  for (size_t i = 1; i < first.size(); ++i) scalar = scalar + first[i].pow(3).sum();
  for (const auto& once : first) all.push_back(once);
  variables.push_back(g);
  for (const auto& second : torch::autograd::grad({scalar}, variables, {}, /*retain_graph=*/{},
                                                  /*create_graph=*/false, /*allow_unused=*/true)) {
    all.push_back(second);
  }
  return all;
}

/// The largest difference of two derivatives; an undefined one is zero.
double difference(const at::Tensor& a, const at::Tensor& b) {
  const auto value = [](const at::Tensor& t) {
    return t.defined() ? t.to(at::kDouble) : at::zeros({}, at::kDouble);
  };
  return (value(a) - value(b)).abs().max().item<double>();
}

TEST_P(GroupNormTest, ItAndItsDerivativesAreTheReferences) {
  const auto all = cases();
  for (size_t k = 0; k < 2 * all.size(); ++k) {
    const auto& c = all[k / 2];
    // A product with the Jacobian has no gradients for weight and bias, and a kernel of its own.
    const bool images_alone = k % 2 == 1;
    SCOPED_TRACE(::testing::Message() << c << (images_alone ? ", images alone" : ""));
    const auto in = inputs(c);
    ASSERT_TRUE(group_norm_serves(in.x, in.weight, in.options));
    const auto g = draw(in.x.sizes()).requires_grad_();
    const auto reference_in = [&](at::ScalarType type) {
      return group_norm_derivatives(reference::group_norm, in.as(type),
                                    g.detach().to(type).requires_grad_(), images_alone);
    };
    const auto results = group_norm_derivatives(own, in, g, images_alone);
    const auto expected = reference_in(at::kDouble);
    // Small groups are badly conditioned: what torch's own loses in float32 says what can be had,
    // in float64 as much less as that rounds less. It is one sample of an error: 8 times it.
    const auto narrow = reference_in(at::kFloat);
    const double rounding = GetParam() == at::kFloat ? 1 : 0x1p-29;
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const double scale = std::max(1.0, difference(expected[i], {}));
      const double allowed =
          std::max(bound() * scale, 8 * rounding * difference(narrow[i], expected[i]));
      EXPECT_LT(difference(results[i], expected[i]), allowed) << "derivative " << i;
    }
  }
}

TEST_P(GroupNormTest, ThirdDerivativesAreTheReferences) {
  const auto in = inputs({.channels = 6,
                          .groups = 2,
                          .height = 4,
                          .width = 3,
                          .affine = true,
                          .addend = true,
                          .relu = true})
                      .as(at::kDouble);
  const auto g = draw(in.x.sizes()).to(at::kDouble).requires_grad_();
  const auto v = draw(in.x.sizes()).to(at::kDouble);
  const auto third = [&](const auto& f) {
    const auto y = f(in.x, in.weight, in.bias, in.addend, in.options);
    const auto once = torch::autograd::grad({y}, in.images(), {g}, /*retain_graph=*/true,
                                            /*create_graph=*/true);
    const auto twice = torch::autograd::grad(once, {in.x, in.weight}, {v, v}, /*retain_graph=*/true,
                                             /*create_graph=*/true);
    const auto scalar = twice[0].square().sum() + twice[1].pow(3).sum();
    return torch::autograd::grad({scalar}, {in.x, in.weight, g});
  };
  const auto results = third(own), expected = third(reference::group_norm);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LT(relative_difference(results[i], expected[i]), 1e-10) << i;
  }
}

TEST_P(GroupNormTest, NumbersFarFromZeroKeepTheirVariance) {
  const auto x = draw({2, 24, 9, 7}).add_(1000).requires_grad_();
  const auto g = draw(x.sizes());
  const auto wide = x.detach().to(at::kDouble).requires_grad_();
  const GroupNormOptions options{.groups = 4};
  const auto y = own(x, {}, {}, {}, options);
  const auto expected = reference::group_norm(wide, {}, {}, {}, options);
  // x − mean loses three of float32's seven digits, and no more.
  EXPECT_LT(difference(y, expected), 1e-3);
  const auto for_x = torch::autograd::grad({y}, {x}, {g})[0];
  const auto for_wide = torch::autograd::grad({expected}, {wide}, {g.to(at::kDouble)})[0];
  EXPECT_LT(difference(for_x, for_wide), 1e-3);
}

TEST_P(GroupNormTest, IsWrittenIntoItsPlace) {
  const auto x = draw({2, 6, 3, 4});
  GroupNormOptions options{.groups = 3, .target = torch::empty({2, 100}, x.options())};
  options.target = options.target.narrow(1, 5, 72).view({2, 3, 4, 6}).permute({0, 3, 1, 2});
  EXPECT_THROW(own(x, {}, {}, {}, options), Error);  // there would be a graph
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(own(x, {}, {}, {}, options).is_same(options.target));
  EXPECT_TRUE(options.target.equal(own(x, {}, {}, {}, {.groups = 3})));
}

TEST_P(GroupNormTest, EveryOrderOfTheImagesServes) {
  auto in = inputs({.channels = 24,
                    .groups = 8,
                    .height = 6,
                    .width = 5,
                    .affine = true,
                    .addend = true,
                    .relu = true});
  const auto expected = own(in.x, in.weight, in.bias, in.addend, in.options);
  for (const auto& x : {in.x.contiguous(), in.x.transpose(2, 3).contiguous().transpose(2, 3)}) {
    EXPECT_TRUE(own(x, in.weight, in.bias, in.addend.contiguous(), in.options).equal(expected));
  }
}

TEST_P(GroupNormTest, DependsNeitherOnThreadsNorOnTheOtherSamples) {
  const auto in = inputs({.channels = 24,
                          .groups = 8,
                          .height = 6,
                          .width = 5,
                          .affine = true,
                          .addend = false,
                          .relu = true});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = own(in.x, in.weight, in.bias, {}, in.options);
  at::set_num_threads(3);
  EXPECT_TRUE(own(in.x, in.weight, in.bias, {}, in.options).equal(one));
  at::set_num_threads(threads);
  EXPECT_TRUE(
      own(in.x.narrow(0, 1, 1), in.weight, in.bias, {}, in.options).equal(one.narrow(0, 1, 1)));
}

TEST_P(GroupNormTest, NaNPassesTheReLU) {
  auto in = inputs({.channels = 4,
                    .groups = 2,
                    .height = 2,
                    .width = 2,
                    .affine = true,
                    .addend = false,
                    .relu = true});
  const torch::NoGradGuard no_grad;
  in.x[0][0][0][0] = std::nan("");
  const auto y = own(in.x, in.weight, in.bias, {}, in.options);
  EXPECT_TRUE(y[0].narrow(0, 0, 2).isnan().all().item<bool>());
  EXPECT_FALSE(y[0].narrow(0, 2, 2).isnan().any().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Types, GroupNormTest, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

}  // namespace
}  // namespace deq::kernels
