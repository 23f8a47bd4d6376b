#include "core/cuda_memory.h"

#include <dlfcn.h>

#include "core/require.h"

namespace deq {
namespace {

int64_t ask_plugin(const torch::Device& device, bool reset) {
  static auto* const peak = reinterpret_cast<CudaPeak*>(dlsym(RTLD_DEFAULT, "deq_cuda_peak"));
  require(peak != nullptr, "the CUDA part of libdeq is not loaded");
  return peak(device.index(), reset);
}

}  // namespace

int64_t peak_cuda_bytes(const torch::Device& device) {
  return ask_plugin(device, /*reset=*/false);
}

void reset_peak_cuda_bytes(const torch::Device& device) {
  ask_plugin(device, /*reset=*/true);
}

}  // namespace deq
