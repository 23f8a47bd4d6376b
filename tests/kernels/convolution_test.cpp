#include "kernels/images/convolution.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "support/maps.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

using test::relative_difference;

class ConvolutionTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) { return torch::randn(shape, generator_); }
};

at::Tensor oracle(const at::Tensor& x, const at::Tensor& w, int64_t stride = 1) {
  return at::conv2d(x.to(at::kDouble), w.to(at::kDouble), {}, stride, w.size(2) / 2);
}

/// The gradients, or only that for x, and those of a function of the gradients.
std::vector<at::Tensor> derivatives(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w,
                                    const at::Tensor& g, bool for_w = true) {
  auto first = torch::autograd::grad({y}, for_w ? std::vector{x, w} : std::vector{x},
                                     {g.to(y.scalar_type())}, /*retain_graph=*/true,
                                     /*create_graph=*/true);
  auto scalar = first[0].square().sum();
  if (for_w) scalar = scalar + first[1].pow(3).sum();
  for (const auto& second : torch::autograd::grad({scalar}, {x, w, g}, {}, /*retain_graph=*/true,
                                                  /*create_graph=*/false, /*allow_unused=*/true)) {
    first.push_back(second);
  }
  // Without a graph, too.
  for (const auto& plain : torch::autograd::grad({y}, {x, w}, {g.to(y.scalar_type()).detach()})) {
    first.push_back(plain);
  }
  return first;
}

TEST_F(ConvolutionTest, IsTorchsInAllSizesAndOrders) {
  // Sizes that tiles of 4×4, blocks of 16 tiles and panels of 24 channels do not divide.
  for (const int64_t in : {8, 16, 120}) {
    for (const int64_t out : {8, 24, 32, 40, 48}) {
      for (const auto& [height, width] :
           {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {3, 9}, {13, 6}}) {
        const auto x = draw({3, in, height, width}), w = draw({out, in, 3, 3});
        ASSERT_TRUE(cpu::winograd_serves(x, w));
        const auto expected = oracle(x, w);
        // The classical bound of rounding in such sums, with a constant for Winograd's transforms.
        const double rounding = 6e-8 * oracle(x.abs(), w.abs()).max().item<double>();
        const auto wide = draw({3, 7 + in * height * width + 5});  // as a part of a slab
        const auto part = wide.narrow(1, 7, in * height * width)
                              .view({3, height, width, in})
                              .permute({0, 3, 1, 2})
                              .copy_(x);
        for (const auto& order : {x, x.contiguous(at::MemoryFormat::ChannelsLast),
                                  x.transpose(2, 3).contiguous().transpose(2, 3), part}) {
          const auto error = (convolution(order, w).to(at::kDouble) - expected).abs().max();
          EXPECT_LT(error.item<double>(), 32 * rounding)
              << in << " → " << out << ", " << height << "×" << width << ", " << order.strides();
        }
      }
    }
  }
}

TEST_F(ConvolutionTest, WhereTheKernelDoesNotServeItIsTorchs) {
  const auto x = draw({2, 6, 5, 5}), w = draw({8, 6, 3, 3});
  EXPECT_FALSE(cpu::winograd_serves(x, w));
  EXPECT_TRUE(convolution(x, w).equal(at::conv2d(x, w, {}, 1, 1)));
  const auto wide = draw({2, 8, 5, 5}).to(at::kDouble), v = draw({8, 8, 3, 3}).to(at::kDouble);
  EXPECT_FALSE(cpu::winograd_serves(wide, v));
  EXPECT_TRUE(convolution(wide, v).equal(at::conv2d(wide, v, {}, 1, 1)));
  EXPECT_FALSE(cpu::winograd_serves(wide, v.to(at::kFloat)));
}

TEST_F(ConvolutionTest, GradientsAndTheirGradientsAreTorchs) {
  const auto x = draw({2, 16, 7, 6}).requires_grad_(), w = draw({24, 16, 3, 3}).requires_grad_();
  const auto g = draw({2, 24, 7, 6}).requires_grad_();
  const auto own = derivatives(convolution(x, w), x, w, g);
  const auto expected = derivatives(oracle(x, w), x, w, g);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_LT(relative_difference(own[i].to(at::kDouble), expected[i].to(at::kDouble)), 5e-6) << i;
  }
}

TEST_F(ConvolutionTest, EveryKernelAndStrideHasTorchsDerivatives) {
  for (const int64_t kernel : {1, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const auto& [height, width] :
           {std::pair<int64_t, int64_t>{8, 8}, {7, 6}, {5, 9}, {1, 2}}) {
        for (const bool for_w : {true, false}) {
          SCOPED_TRACE(fmt::format("{}×{}, stride {}, {}×{}{}", kernel, kernel, stride, height,
                                   width, for_w ? "" : ", for x alone"));
          const auto x = draw({2, 6, height, width}).to(at::kDouble).requires_grad_();
          const auto w = draw({5, 6, kernel, kernel}).to(at::kDouble).requires_grad_();
          const auto y = convolution(x, w, stride), expected = oracle(x, w, stride);
          ASSERT_EQ(y.sizes(), expected.sizes());
          const auto g = draw(y.sizes()).to(at::kDouble).requires_grad_();
          const auto own = derivatives(y, x, w, g, for_w);
          const auto plain = derivatives(expected, x, w, g, for_w);
          ASSERT_EQ(own.size(), plain.size());
          for (size_t i = 0; i < own.size(); ++i) {
            ASSERT_EQ(own[i].defined(), plain[i].defined()) << i;
            if (!own[i].defined()) continue;
            EXPECT_LT(relative_difference(own[i], plain[i]), 1e-12) << i;
          }
        }
      }
    }
  }
}

TEST_F(ConvolutionTest, DependsNeitherOnThreadsNorOnTheOtherSamples) {
  const auto x = draw({5, 24, 9, 10}), w = draw({40, 24, 3, 3});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = convolution(x, w);
  at::set_num_threads(3);
  const auto three = convolution(x, w);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
  EXPECT_TRUE(convolution(x.narrow(0, 2, 1), w).equal(one.narrow(0, 2, 1)));
}

TEST_F(ConvolutionTest, NonFiniteNumbersStayVisible) {
  auto x = draw({1, 8, 6, 6});
  x[0][3][2][2] = std::nan("");
  const auto y = convolution(x, draw({8, 8, 3, 3}));
  EXPECT_TRUE(y.slice(2, 1, 4).slice(3, 1, 4).isnan().all().item<bool>());
}

}  // namespace
}  // namespace deq::kernels
