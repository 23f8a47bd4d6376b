// NCCL's part of libtorch is declared by its header only under this macro.
#define USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <type_traits>

#include "lab/distributed/backends.h"

namespace deq::lab::distributed {

extern "C" __attribute__((visibility("default"))) void deq_make_nccl(
    const StorePtr& store, const RankInfo& self, torch::Device device,
    std::chrono::milliseconds timeout, BackendPtr& made) {
  c10::cuda::set_device(device.index());  // the one that NCCL binds this rank to
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  made = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(self.rank),
                                                     static_cast<int>(self.size), options);
  made->setBoundDeviceId(device);
}

static_assert(std::is_same_v<decltype(deq_make_nccl), MakeNccl>);

}  // namespace deq::lab::distributed
