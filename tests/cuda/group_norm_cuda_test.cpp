#include "kernels/norms/group_norm.h"

#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "gpu_test.h"

// The plugin's group norm and its derivatives, against torch's in float64 on the same device. The
// inputs are exact in every type, so that only the rounding of the kernel differs.

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;

struct GroupNormCase {
  int64_t batch, per_group, groups, height, width;
  at::ScalarType type, out;
  bool affine, addend, relu;
};

std::ostream& operator<<(std::ostream& stream, const GroupNormCase& c) {
  return stream << c.batch << " images of " << c.groups << " groups of " << c.per_group << ", "
                << c.height << "×" << c.width << ", " << c.type << " → " << c.out
                << (c.affine ? ", affine" : "") << (c.addend ? ", addend" : "")
                << (c.relu ? ", ReLU" : "");
}

std::vector<GroupNormCase> cases() {
  struct Size {
    int64_t batch, per_group, groups, height, width;
  };
  std::vector<Size> sizes{{96, 40, 8, 16, 16}, {96, 4, 8, 32, 32}, {96, 20, 8, 32, 32},
                          {96, 32, 8, 4, 4},   {3, 1024, 1, 3, 3}, {2, 160, 8, 4, 4}};
  for (const int64_t per_group : {1, 3, 5, 8, 40}) {
    for (const int64_t groups : {1, 6, 8}) {
      sizes.push_back({1, per_group, groups, 1, 1});
      sizes.push_back({3, per_group, groups, 7, 5});
      sizes.push_back({3, per_group, groups, 32, 32});
      sizes.push_back({3, per_group, groups, 67, 31});  // nothing that blocks share evenly
    }
  }
  std::vector<GroupNormCase> all;
  for (const auto& s : sizes) {
    for (const auto& [type, out] : {std::pair{at::kFloat, at::kFloat},
                                    {at::kDouble, at::kDouble},
                                    {at::kBFloat16, at::kBFloat16},
                                    {at::kBFloat16, at::kFloat}}) {
      for (const int bits : {0, 1, 3, 4, 7}) {
        if (s.batch > 3 && bits != 1 && bits != 7) continue;  // they are large
        all.push_back({s.batch, s.per_group, s.groups, s.height, s.width, type, out,
                       (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
      }
    }
  }
  return all;
}

struct Inputs {
  at::Tensor x{}, weight{}, bias{}, addend{};
  at::Tensor g{};            // ∂y
  at::Tensor v{}, pushed{};  // cotangents of ∂x and ∂addend
  GroupNormOptions options{};

  /// As leaves in float64.
  Inputs wide() const {
    const auto leaf = [](const at::Tensor& t) {
      return t.defined() ? t.detach().to(at::kDouble).requires_grad_() : t;
    };
    auto options64 = options;
    options64.type.reset();
    return {leaf(x), leaf(weight), leaf(bias),   leaf(addend),
            leaf(g), leaf(v),      leaf(pushed), options64};
  }
};

/// Everything that is derived: y; ∂x, ∂addend, ∂weight, ∂bias from a backward without graph; ∂x and
/// ∂addend from one with a graph, and its gradients for ∂y, x, weight.
struct GroupNormDerived {
  at::Tensor y{}, for_x{}, for_addend{}, for_weight{}, for_bias{};
  at::Tensor again_x{}, again_addend{}, second_g{}, second_x{}, second_weight{};
};

template <class Function>
GroupNormDerived derive_group_norm(const Function& f, const Inputs& in) {
  GroupNormDerived d;
  d.y = f(in);
  std::vector<at::Tensor> images{in.x}, all{in.x};
  if (in.addend.defined()) images.push_back(in.addend);
  all = images;
  if (in.weight.defined()) all.insert(all.end(), {in.weight, in.bias});
  const auto plain = torch::autograd::grad({d.y}, all, {in.g}, /*retain_graph=*/true);
  d.for_x = plain[0];
  if (in.addend.defined()) d.for_addend = plain[1];
  if (in.weight.defined()) {
    d.for_weight = plain[images.size()];
    d.for_bias = plain[images.size() + 1];
  }
  const auto once = torch::autograd::grad({d.y}, images, {in.g}, /*retain_graph=*/true,
                                          /*create_graph=*/true);
  d.again_x = once[0];
  std::vector<at::Tensor> outputs{once[0]}, cotangents{in.v}, variables{in.g, in.x};
  if (in.addend.defined()) {
    d.again_addend = once[1];
    outputs.push_back(once[1]);
    cotangents.push_back(in.pushed);
  }
  if (in.weight.defined()) variables.push_back(in.weight);
  const auto twice = torch::autograd::grad(outputs, variables, cotangents);
  d.second_g = twice[0];
  d.second_x = twice[1];
  if (in.weight.defined()) d.second_weight = twice[2];
  return d;
}

at::Tensor own(const Inputs& in) {
  return group_norm(in.x, in.weight, in.bias, in.addend, in.options);
}

/// torch's; the ReLU is the kernel's own decision, which may differ where it gets nothing.
auto oracle(const at::Tensor& y) {
  return [y](const Inputs& in) {
    const auto z = at::group_norm(in.x, in.options.groups, in.weight, in.bias, in.options.eps);
    const auto sum = in.addend.defined() ? z + in.addend : z;
    return in.options.relu ? sum * y.gt(0) : sum;
  };
}

class GroupNormCudaTest : public test::GpuTest {
 protected:
  Inputs inputs(const GroupNormCase& c) {
    const auto channels = c.per_group * c.groups;
    const std::vector<int64_t> shape{c.batch, channels, c.height, c.width};
    const auto wide = c.type == at::kDouble ? at::kDouble : at::kFloat;
    const auto images = [&](at::ScalarType type) {
      return draw(shape, type).contiguous(at::MemoryFormat::ChannelsLast);
    };
    Inputs in{.x = images(c.type).add_(0.5).requires_grad_(),
              .g = images(c.out).requires_grad_(),
              .v = images(c.type),
              .pushed = images(c.type),
              .options = {.groups = c.groups, .relu = c.relu, .type = c.out}};
    if (c.affine) {
      in.weight = draw({channels}, wide).requires_grad_();
      in.bias = draw({channels}, wide).requires_grad_();
    }
    if (c.addend) in.addend = draw_part(shape, c.type).requires_grad_();
    return in;
  }
};

/// How far the kernel may be off, by what it adds and multiplies: unit roundings of the sums' type
/// on the way, one of the result's at the end.
class Bounds {
 public:
  explicit Bounds(const Inputs& in) : in_(in) {
    const auto wide = in.wide();
    const auto [mean, rstd] =
        reference::group_statistics(wide.x.detach(), in.options.groups, in.options.eps);
    rstd_ = largest(rstd);
    weight_ = in.weight.defined() ? largest(in.weight) : 1;
    // x − mean rounds as x does, and 1/σ makes that large; the variance's own error is no larger.
    const double unit = in.x.scalar_type() == at::kDouble ? 0x1p-52 : 0x1p-23;
    unit_ = 16 * unit * (1 + rstd_ * largest(in.x)) * (1 + rstd_);
    entries_ = std::sqrt(static_cast<double>(in.x.numel() / in.x.size(1)));
  }

  void check(const GroupNormDerived& own, const GroupNormDerived& expected) const {
    const double g = largest(in_.g), v = largest(in_.v), pushed = largest(in_.pushed);
    const double normal = entries_ * std::sqrt(static_cast<double>(in_.x.size(1)));
    const double a = weight_ * g, x_hat = std::min(normal, 1 + rstd_ * largest(in_.x));
    near("y", own.y, expected.y, weight_ * x_hat + largest(in_.bias) + largest(in_.addend));
    near("∂x", own.for_x, expected.for_x, rstd_ * a * x_hat);
    near("∂addend", own.for_addend, expected.for_addend, g);
    near("∂weight", own.for_weight, expected.for_weight, g * x_hat * entries_);
    near("∂bias", own.for_bias, expected.for_bias, g * entries_);
    near("∂x with a graph", own.again_x, expected.for_x, rstd_ * a * x_hat);
    near("∂addend with a graph", own.again_addend, expected.for_addend, g);
    // Without a ReLU the two parts are added, and rounded again, by autograd.
    const double parts = largest(expected.second_g) + pushed;
    near("∂∂y", own.second_g, expected.second_g, weight_ * rstd_ * v * x_hat + pushed, parts);
    near("∂x of ∂x", own.second_x, expected.second_x, rstd_ * rstd_ * v * a * x_hat * x_hat);
    near("∂weight of ∂x", own.second_weight, expected.second_weight,
         rstd_ * v * g * x_hat * entries_);
  }

 private:
  void near(const char* what, const at::Tensor& own, const at::Tensor& expected, double size,
            double parts = 0) const {
    ASSERT_EQ(own.defined(), expected.defined()) << what;
    if (!own.defined()) return;
    const double last = own.scalar_type() == at::kBFloat16 ? 0x1p-8 : 0x1p-23;
    const double rounded =
        own.scalar_type() == at::kDouble ? 0 : last * (largest(expected) + parts);
    EXPECT_LE(distance(own, expected), unit_ * size + rounded) << what;
  }

  const Inputs& in_;
  double rstd_, weight_, unit_, entries_;
};

TEST_F(GroupNormCudaTest, ItAndItsDerivativesAreTorchs) {
  for (const auto& c : test::thinned(cases())) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto in = inputs(c);
    ASSERT_TRUE(group_norm_serves(in.x, in.weight, in.options));
    const auto results = derive_group_norm(own, in);
    EXPECT_EQ(results.y.scalar_type(), c.out);
    EXPECT_EQ(results.for_x.scalar_type(), c.type);
    EXPECT_TRUE(results.y.is_contiguous(at::MemoryFormat::ChannelsLast));
    const auto expected = derive_group_norm(oracle(results.y.detach()), in.wide());
    Bounds(in).check(results, expected);
    EXPECT_TRUE(!c.relu || results.y.ge(0).all().item<bool>());
    if (HasFailure()) break;
  }
}

TEST_F(GroupNormCudaTest, EveryOrderOfTheImagesServes) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto in = inputs({3, 8, 3, 6, 5, type, type, true, true, true});
    const auto expected = own(in);
    const auto channels_first = in.x.contiguous();
    const auto columns_first = in.x.transpose(2, 3).contiguous().transpose(2, 3);
    // A part of a slab that begins where no vector may.
    const auto size = in.x.numel() / 3;
    const auto slab = draw({3, size + 3}, type);
    const auto part = slab.narrow(1, 1, size).view({3, 6, 5, 24}).permute({0, 3, 1, 2});
    part.copy_(in.x.detach());
    for (const auto& x : {channels_first, columns_first, part}) {
      const auto y = group_norm(x, in.weight, in.bias, in.addend.contiguous(), in.options);
      EXPECT_TRUE(y.equal(expected)) << type << ", strides " << x.strides();
    }
  }
}

TEST_F(GroupNormCudaTest, NumbersFarFromZeroKeepTheirVariance) {
  for (const auto& [type, far] : {std::pair{at::kFloat, 1000.0}, {at::kBFloat16, 8.0}}) {
    const auto x = (draw({4, 32, 9, 7}) + far).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const auto y = group_norm(x, {}, {}, {}, {.groups = 4, .type = at::kFloat});
    const auto expected = at::group_norm(x.to(at::kDouble), 4);
    EXPECT_LT(distance(y, expected), 1e-3) << type;
  }
}

TEST_F(GroupNormCudaTest, IsWrittenIntoItsPlace) {
  const at::NoGradGuard no_grad;
  for (const auto& shape : {std::vector<int64_t>{3, 16, 5, 7}, {2, 6, 3, 3}}) {
    const auto x = draw(shape, at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
    const GroupNormOptions options{.groups = 2, .type = at::kFloat};
    auto into = options;
    into.target =
        draw_part(shape);  // of a slab; the second one at addresses that no vector divides
    EXPECT_TRUE(group_norm(x, {}, {}, {}, into).is_same(into.target));
    EXPECT_TRUE(into.target.equal(group_norm(x, {}, {}, {}, options)));
  }
  const at::AutoGradMode grad(true);
  const auto x = draw({2, 4, 3, 3});
  EXPECT_THROW(group_norm(x, {}, {}, {}, {.groups = 2, .target = at::empty_like(x)}), Error);
}

TEST_F(GroupNormCudaTest, DependsNotOnTheOtherSamples) {
  const auto in = inputs({5, 20, 8, 9, 7, at::kBFloat16, at::kBFloat16, true, false, true});
  const auto y = own(in);
  EXPECT_TRUE(own(in).equal(y));
  EXPECT_TRUE(group_norm(in.x.narrow(0, 2, 1), in.weight, in.bias, {}, in.options)
                  .equal(y.narrow(0, 2, 1)));
}

TEST_F(GroupNormCudaTest, NaNPassesTheReLU) {
  auto in = inputs({2, 4, 2, 3, 3, at::kFloat, at::kFloat, true, false, true});
  const torch::NoGradGuard no_grad;
  in.x[0][0][1][1] = std::nan("");
  const auto y = own(in);
  EXPECT_TRUE(y[0].narrow(0, 0, 4).isnan().all().item<bool>());
  EXPECT_FALSE(y[0].narrow(0, 4, 4).isnan().any().item<bool>());
  EXPECT_FALSE(y[1].isnan().any().item<bool>());
}

TEST_F(GroupNormCudaTest, WhereTheKernelDoesNotServeItIsTorchs) {
  const auto x = draw({2, 1031, 2, 2});  // a prime: one group of single numbers
  EXPECT_FALSE(group_norm_serves(x, {}, {}));
  EXPECT_LT(distance(group_norm(x, {}, {}, {}, {.relu = true}), at::group_norm(x, 1).relu()), 1e-5);
}

TEST_F(GroupNormCudaTest, ThirdDerivativesAreTorchs) {
  const auto in = inputs({2, 3, 2, 3, 4, at::kDouble, at::kDouble, true, true, true});
  const auto third = [&](const auto& f) {
    const auto y = f(in);
    const auto once = torch::autograd::grad({y}, {in.x, in.addend}, {in.g}, /*retain_graph=*/true,
                                            /*create_graph=*/true);
    const auto twice = torch::autograd::grad({once[0]}, {in.x, in.weight}, {in.v},
                                             /*retain_graph=*/true, /*create_graph=*/true);
    const auto scalar = twice[0].square().sum() + twice[1].pow(3).sum();
    return torch::autograd::grad({scalar}, {in.x, in.weight, in.g});
  };
  const auto results = third(own), expected = third(oracle(own(in).detach()));
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LT(distance(results[i], expected[i]), 1e-9 * (1 + largest(expected[i]))) << i;
  }
}

}  // namespace
}  // namespace deq::kernels
