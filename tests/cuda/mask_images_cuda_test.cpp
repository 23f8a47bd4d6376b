#include "kernels/images/mask_images.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using MaskImagesCudaTest = test::GpuTest;
using torch::autograd::grad;

TEST_F(MaskImagesCudaTest, ItAndItsDerivativesAreTorchs) {
  // The second has channels that no vector divides, the third more than one block per sample.
  for (const auto& shape : {std::vector<int64_t>{3, 8, 2, 2}, {2, 5, 3, 1}, {4, 24, 12, 11}}) {
    for (const auto type : {at::kBFloat16, at::kFloat, at::kDouble}) {
      for (const bool added : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} in {}{}", at::IntArrayRef(shape), type, added ? ", added" : ""));
        const auto x = draw_part(shape, type).requires_grad_();
        const auto mask = draw({shape[0], shape[1], 1, 1}, type);
        const auto addend = added ? draw(shape, type).requires_grad_() : at::Tensor();
        const auto y = mask_images(x, mask, addend);
        const auto plain = added ? at::addcmul(addend, x, mask) : x * mask;
        EXPECT_TRUE(y.equal(plain));
        const auto g = draw(shape, type).requires_grad_();
        const auto for_x = grad({y}, {x}, {g}, /*retain_graph=*/true, /*create_graph=*/true)[0];
        EXPECT_TRUE(for_x.equal(g * mask));
        if (added) {
          EXPECT_TRUE(grad({y}, {addend}, {g}, /*retain_graph=*/true)[0].equal(g));
        }
        const auto v = draw(shape, type);
        EXPECT_TRUE(grad({for_x}, {g}, {v})[0].equal(v * mask));
      }
    }
  }
}

}  // namespace
}  // namespace deq::kernels
