#include "kernels/images/dense_images.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "deq/core/state_layout.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using DenseImagesCudaTest = test::GpuTest;

TEST_F(DenseImagesCudaTest, ItAndItsDerivativesAreTorchs) {
  // The second has a size that no vector divides, the third more than one block.
  for (const auto& shape : {std::vector<int64_t>{3, 8, 2, 2}, {2, 5, 3, 1}, {4, 24, 12, 11}}) {
    for (const auto type : {at::kBFloat16, at::kFloat, at::kDouble}) {
      SCOPED_TRACE(fmt::format("{} to {}", at::IntArrayRef(shape), type));
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

TEST_F(DenseImagesCudaTest, GradientsOfTheSlabsPartsAreOneSlab) {
  const std::vector<std::vector<int64_t>> shapes{{3, 8, 4, 6}, {3, 16, 2, 3}};
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    SCOPED_TRACE(type);
    const auto slab = draw({3, 8 * 4 * 6 + 16 * 2 * 3}).requires_grad_();
    const auto layout =
        StateLayout::of({draw(shapes[0]).contiguous(at::MemoryFormat::ChannelsLast),
                         draw(shapes[1]).contiguous(at::MemoryFormat::ChannelsLast)});
    const auto parts = layout.unpack(slab);
    const auto dense = dense_images(parts, type);
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(dense[i].equal(parts[i].to(type)));
      EXPECT_TRUE(dense[i].is_contiguous(at::MemoryFormat::ChannelsLast));
      gradients.push_back(draw(shapes[i], type).requires_grad_());
    }
    const auto expected = layout.pack({gradients[0].detach(), gradients[1].detach()});
    EXPECT_TRUE(torch::autograd::grad(dense, {slab}, gradients, true)[0].equal(expected));
    const auto once = torch::autograd::grad(dense, {slab}, gradients, true, true)[0];
    EXPECT_TRUE(once.equal(expected));
    const auto v = draw({3, layout.dim()});
    const auto twice = torch::autograd::grad({once}, gradients, {v});
    const auto back = layout.unpack(v);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(twice[i].equal(back[i].to(type)));
  }
}

TEST_F(DenseImagesCudaTest, WhatIsDoneIsLeftAlone) {
  const auto x = draw({2, 8, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(dense_images(x, at::kFloat).is_same(x));
}

}  // namespace
}  // namespace deq::kernels
