#include "kernels/images/convolution.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;

using ConvolutionCudaTest = test::GpuTest;

struct Derived {
  at::Tensor y, for_x, for_w, again_x, second_g, second_w;
};

/// y; the gradients without a graph; that for x with one, and its gradients for ∂y and w.
template <class Function>
Derived derive(const Function& f, const at::Tensor& x, const at::Tensor& w, const at::Tensor& g,
               const at::Tensor& v) {
  const auto y = f(x, w);
  const auto plain = torch::autograd::grad({y}, {x, w}, {g}, /*retain_graph=*/true);
  const auto again = torch::autograd::grad({y}, {x}, {g}, /*retain_graph=*/true,
                                           /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({again}, {g, w}, {v});
  return {y, plain[0], plain[1], again, second[0], second[1]};
}

TEST_F(ConvolutionCudaTest, ItAndItsDerivativesAreTorchsInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const int64_t kernel : {1, 3, 5}) {
      for (const int64_t stride : {1, 2}) {
        for (const auto& [height, width] : {std::pair<int64_t, int64_t>{8, 8}, {7, 6}, {4, 4}}) {
          SCOPED_TRACE(fmt::format("{}, {}×{}, stride {}, {}×{}", type, kernel, kernel, stride,
                                   height, width));
          const auto order = at::MemoryFormat::ChannelsLast;
          const auto x = draw_part({3, 16, height, width}, type).requires_grad_();
          const auto w = draw({24, 16, kernel, kernel}, type).contiguous(order).requires_grad_();
          const auto own = [&](const at::Tensor& a, const at::Tensor& b) {
            return convolution(a, b, stride);
          };
          const auto torchs = [&](const at::Tensor& a, const at::Tensor& b) {
            return at::conv2d(a, b, {}, stride, kernel / 2);
          };
          const auto g = draw(own(x, w).sizes(), type).contiguous(order).requires_grad_();
          const auto v = draw(x.sizes(), type).contiguous(order);
          const auto results = derive(own, x, w, g, v);
          const auto wide = [](const at::Tensor& t) {
            return t.detach().to(at::kDouble).requires_grad_();
          };
          const auto expected = derive(torchs, wide(x), wide(w), wide(g), wide(v).detach());
          EXPECT_EQ(results.y.scalar_type(), type);
          // cuDNN has no other order for float64.
          EXPECT_TRUE(type == at::kDouble || results.y.is_contiguous(order));
          // Sums of some hundred products; ten bits of each factor where float32 is TensorFloat32.
          const double unit = type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-3 : 1e-2;
          const auto near = [&](const char* what, const at::Tensor& a, const at::Tensor& b) {
            EXPECT_LE(distance(a, b), unit * (1 + largest(b))) << what;
          };
          near("y", results.y, expected.y);
          near("∂x", results.for_x, expected.for_x);
          near("∂w", results.for_w, expected.for_w);
          near("∂x with a graph", results.again_x, expected.again_x);
          near("∂∂y", results.second_g, expected.second_g);
          near("∂w of ∂x", results.second_w, expected.second_w);
        }
      }
    }
  }
}

}  // namespace
}  // namespace deq::kernels
