#include "kernels/dense_images.h"

#include <torch/autograd.h>

#include "gpu_test.h"

namespace deq::kernels {
namespace {

using DenseImagesCudaTest = test::GpuTest;

TEST_F(DenseImagesCudaTest, ItAndItsDerivativesAreTorchs) {
  // The second has a number of numbers that no vector divides, the third more than one block.
  for (const auto& shape : {std::vector<int64_t>{3, 8, 2, 2}, {2, 5, 3, 1}, {4, 24, 12, 11}}) {
    for (const auto type : {at::kBFloat16, at::kFloat, at::kDouble}) {
      SCOPED_TRACE(c10::str(at::IntArrayRef(shape), " to ", type));
      const auto x = draw_part(shape).requires_grad_();
      const auto y = dense_images(x, type);
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(y.equal(x.to(type)));
      const auto g = draw(shape, type).requires_grad_();
      const auto once = torch::autograd::grad({y}, {x}, {g}, /*retain_graph=*/true,
                                              /*create_graph=*/true)[0];
      EXPECT_TRUE(once.equal(g.to(at::kFloat)));
      const auto v = draw(shape);
      EXPECT_TRUE(torch::autograd::grad({once}, {g}, {v})[0].equal(v.to(type)));
    }
  }
}

TEST_F(DenseImagesCudaTest, WhatIsDoneIsLeftAlone) {
  const auto x = draw({2, 8, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(dense_images(x, at::kFloat).is_same(x));
}

}  // namespace
}  // namespace deq::kernels
