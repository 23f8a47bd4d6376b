#include "deq/lab/data/batches/batch.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "cuda/gpu_test.h"

namespace deq {
namespace {

class BatchCudaTest : public test::GpuTest {};

TEST_F(BatchCudaTest, TravelsWhileTheGpuIsBusy) {
  const lab::Batch batch{
      {torch::arange(96 * 3072).view({96, 3072}).to(torch::kFloat32), torch::arange(96)}};
  (void)batch.to(torch::kCUDA, torch::kFloat64);  // the first pinned memory is asked of the driver

  const c10::impl::VirtualGuardImpl gpu(torch::kCUDA);
  const auto stream = gpu.getStream(torch::Device(torch::kCUDA, 0));
  auto work = torch::randn({4096, 4096}, torch::kCUDA);
  for (int i = 0; i < 100; ++i) work = work.matmul(work).mul_(1e-3);
  const auto there = batch.to(torch::kCUDA, torch::kFloat64);
  EXPECT_FALSE(gpu.queryStream(stream)) << "the host waited for the GPU";

  EXPECT_EQ(there.tensors[0].scalar_type(), torch::kFloat64);
  EXPECT_EQ(there.tensors[1].scalar_type(), torch::kInt64);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        there.tensors[i].cpu().to(torch::kFloat64).equal(batch.tensors[i].to(torch::kFloat64)));
  }
}

}  // namespace
}  // namespace deq
