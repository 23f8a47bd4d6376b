#include <dlfcn.h>

#include "core/plugin.h"
#include "core/require.h"
#include "deq/core/cuda.h"
#include "lab/distributed/backends.h"

namespace deq::lab::distributed {

BackendPtr make_nccl(const StorePtr& store, const RankInfo& self, torch::Device device,
                     std::chrono::milliseconds timeout) {
  const auto& cuda = cuda_status();
  require(cuda.available, "a world on GPUs: {}", cuda.reason);
  static const auto missing = load_plugin("libdeq_lab_cuda.so");
  require(missing.empty(),
          "a world of {} processes on GPUs needs NCCL: {} (it is built where nccl.h is found)",
          self.size, missing);
  auto* const make = reinterpret_cast<MakeNccl*>(dlsym(RTLD_DEFAULT, "deq_make_nccl"));
  BackendPtr made;
  make(store, self, device, timeout, made);
  return made;
}

}  // namespace deq::lab::distributed
