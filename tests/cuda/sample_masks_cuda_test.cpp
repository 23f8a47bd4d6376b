#include "kernels/feed_forward/sample_masks.h"

#include "core/format.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using SampleMasksCudaTest = test::GpuTest;

TEST_F(SampleMasksCudaTest, EverySampleGetsItsMask) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    for (const int64_t numbers : {8, 264, 1032}) {
      for (const int64_t rows : {1, 5, 13}) {
        for (const int64_t samples : {1, 3}) {
          SCOPED_TRACE(
              fmt::format("{}, {} samples of {} rows of {}", type, samples, rows, numbers));
          const auto x = draw({samples * rows, numbers}, type);
          const auto masks = draw({samples, 1, numbers}, type).relu();
          const auto product = (x.view({samples, rows, numbers}) * masks).view(x.sizes());
          auto result = x.clone();
          mask_samples(result, masks, {});
          EXPECT_TRUE(result.equal(product));

          const auto positive = draw(x.sizes(), type);
          result = x.clone();
          mask_samples(result, masks, positive);
          EXPECT_TRUE(result.equal(product * positive.gt(0)));
        }
      }
    }
  }
}

TEST_F(SampleMasksCudaTest, RefusesWhatItDoesNotServe) {
  EXPECT_THROW(mask_samples(draw({4, 12}, at::kBFloat16), draw({2, 1, 12}, at::kBFloat16), {}),
               std::exception);
  EXPECT_THROW(mask_samples(draw({4, 16}, at::kDouble), draw({2, 1, 16}, at::kDouble), {}),
               std::exception);
}

}  // namespace
}  // namespace deq::kernels
