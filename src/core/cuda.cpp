#include "deq/core/cuda.h"

#include <dlfcn.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <filesystem>

#include "deq/core/error.h"

namespace deq {
namespace {

std::filesystem::path find_plugin() {
  if (const char* path = std::getenv("DEQ_CUDA_PLUGIN")) return path;
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto beside = program / "libdeq_cuda.so";
  return std::filesystem::exists(beside) ? beside : program.parent_path() / "lib/libdeq_cuda.so";
}

CudaStatus try_load() {
  const auto plugin = find_plugin();
  if (!std::filesystem::exists(plugin)) {
    return {false, "this build has no CUDA plugin (" + plugin.string() + " does not exist)"};
  }
  if (dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return {false, std::string("the CUDA plugin does not load: ") + dlerror()};
  }
  if (!torch::cuda::is_available()) return {false, "no NVIDIA GPU or driver was found"};
  return {true, {}};
}

}  // namespace

const CudaStatus& load_cuda() {
  static const CudaStatus status = try_load();
  return status;
}

torch::Device usable_device(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  const bool indexed = name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
                       name.find_first_not_of("0123456789", 5) == std::string::npos &&
                       name.size() < 8;
  require<UsageError>(name == "cuda" || indexed, "unknown device \"", name,
                      "\"; allowed: cpu, cuda, cuda:N");
  const auto& status = load_cuda();
  require<UsageError>(status.available, "device \"", name, "\": ", status.reason);
  const int index = indexed ? std::stoi(name.substr(5)) : 0;
  const auto count = static_cast<int>(torch::cuda::device_count());
  require<UsageError>(index < count, "device \"", name, "\": there are ", count,
                      " GPUs, counted from 0");
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace deq
