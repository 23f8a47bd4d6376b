#include <dlfcn.h>

#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "distributed/backends.h"

namespace deq::distributed {

BackendPtr make_nccl(const StorePtr& store, const WorldPlace& place, torch::Device device,
                     std::chrono::milliseconds timeout) {
  const auto& cuda = load_cuda();
  require(cuda.available, "a world on GPUs: ", cuda.reason);
  auto* const make = reinterpret_cast<MakeNccl*>(dlsym(RTLD_DEFAULT, "deq_make_nccl"));
  require(make != nullptr, "a world of ", place.size,
          " processes on GPUs needs NCCL, and this build's CUDA plugin is without it (nccl.h was "
          "missing when it was built)");
  BackendPtr made;
  make(store, place, device, timeout, made);
  return made;
}

}  // namespace deq::distributed
