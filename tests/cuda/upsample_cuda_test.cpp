#include "kernels/images/upsample.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;

using UpsampleCudaTest = test::GpuTest;

/// y; the gradients without a graph; the same with one, and their gradient for ∂y.
template <class Function>
std::vector<at::Tensor> derive_upsample(const Function& f, const std::vector<at::Tensor>& inputs,
                                        const at::Tensor& g,
                                        const std::vector<at::Tensor>& cotangents) {
  const auto y = f(inputs);
  std::vector<at::Tensor> all{y};
  const auto add = [&](const std::vector<at::Tensor>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(torch::autograd::grad({y}, inputs, {g}, /*retain_graph=*/true));
  const auto once = torch::autograd::grad({y}, inputs, {g}, /*retain_graph=*/true,
                                          /*create_graph=*/true);
  add(once);
  add(torch::autograd::grad(once, {g}, cotangents, /*retain_graph=*/true));
  add(torch::autograd::grad({once[0]}, {g}, {cotangents[0]}));
  return all;
}

TEST_F(UpsampleCudaTest, ItAndItsDerivativesAreTorchsInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const int64_t channels : {1, 6, 8, 20, 32}) {
      for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {16, 16}}) {
        for (const int bits : {0, 1, 2, 3}) {
          const bool added = (bits & 1) != 0, relu = (bits & 2) != 0;
          SCOPED_TRACE(fmt::format("{}, {} channels, {}×{}{}{}", type, channels, height, width,
                                   added ? ", added" : "", relu ? ", ReLU" : ""));
          const std::vector<int64_t> large{3, channels, 2 * height, 2 * width};
          std::vector<at::Tensor> inputs{draw({3, channels, height, width}, type)
                                             .contiguous(at::MemoryFormat::ChannelsLast)
                                             .requires_grad_()};
          std::vector<at::Tensor> cotangents{draw(inputs[0].sizes(), type)};
          if (added) {
            inputs.push_back(draw_part(large, type).requires_grad_());
            cotangents.push_back(draw(large, type));
          }
          const auto g = draw(large, type).requires_grad_();
          ASSERT_TRUE(upsample_add_serves(inputs[0], added ? inputs[1] : at::Tensor()));
          const auto own = [relu](const std::vector<at::Tensor>& in) {
            return upsample_add(in[0], in.size() > 1 ? in[1] : at::Tensor(), relu);
          };
          const auto results = derive_upsample(own, inputs, g, cotangents);

          const auto wide = [](const std::vector<at::Tensor>& tensors) {
            std::vector<at::Tensor> leaves;
            for (const auto& t : tensors) {
              leaves.push_back(t.detach().to(at::kDouble).requires_grad_());
            }
            return leaves;
          };
          // The ReLU is the kernel's own decision, which may differ where it gets nothing.
          const auto mask = results[0].detach().gt(0);
          const auto torchs = [&](const std::vector<at::Tensor>& in) {
            auto y = in[0].repeat_interleave(2, 2).repeat_interleave(2, 3);
            if (in.size() > 1) y = y + in[1];
            return relu ? y * mask : y;
          };
          const auto expected =
              derive_upsample(torchs, wide(inputs), wide({g})[0], wide(cotangents));
          ASSERT_EQ(results.size(), expected.size());
          const double unit = type == at::kDouble ? 1e-15 : type == at::kFloat ? 1e-6 : 0x1p-8;
          for (size_t i = 0; i < results.size(); ++i) {
            EXPECT_EQ(results[i].scalar_type(), type) << i;
            // Two roundings where autograd adds two parts.
            EXPECT_LE(distance(results[i], expected[i]), 2 * unit * (1 + largest(expected[i])))
                << i;
          }
        }
      }
    }
  }
}

TEST_F(UpsampleCudaTest, NaNPassesTheReLU) {
  const auto small = at::full({1, 8, 1, 1}, std::nan(""), at::kFloat).to(at::kCUDA);
  EXPECT_TRUE(upsample_add(small, {}, /*relu=*/true).isnan().all().item<bool>());
}

}  // namespace
}  // namespace deq::kernels
