#include "deq/core/cuda.h"

#include <dlfcn.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "core/plugin.h"

namespace deq {
namespace {

bool gpus_are_hidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr &&
         (std::string_view(visible).empty() || std::string_view(visible) == "-1");
}

/// Loads libdeq_cuda.so, and with it libtorch_cuda.so; says why where that fails.
std::string load_cuda() {
  if (gpus_are_hidden()) return "CUDA_VISIBLE_DEVICES hides all GPUs";
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    return "no NVIDIA driver was found (libcuda.so.1)";
  }
  const auto error = load_plugin("libdeq_cuda.so");
  return error.empty() ? error : "the CUDA part of libdeq does not load: " + error;
}

const std::string& why_not_loaded() {
  static const std::string reason = load_cuda();
  return reason;
}

// torch decides once whether there is CUDA, when it is first asked, and a program asks with its
// first tensor on a GPU. So the plugin is loaded before that, where there is a driver.
[[maybe_unused]] const bool loaded_with_the_library = why_not_loaded().empty();

}  // namespace

const CudaStatus& cuda_status() {
  static const CudaStatus status = []() -> CudaStatus {
    if (!why_not_loaded().empty()) return {false, why_not_loaded()};
    if (!torch::cuda::is_available()) return {false, "the NVIDIA driver offers no GPU"};
    return {true, {}};
  }();
  return status;
}

}  // namespace deq
