#pragma once

#include <torch/types.h>

#include <string>

namespace deq {

/// Whether CUDA can be used, and if not, why: one sentence.
struct CudaStatus {
  bool available = false;
  std::string reason;
};

/// Loads the CUDA plugin (libdeq_cuda.so: next to the program, in ../lib, or where DEQ_CUDA_PLUGIN
/// says) on the first call. Without it, or without a GPU, everything goes on on the CPU.
const CudaStatus& load_cuda();

/// "cpu", "cuda" or "cuda:N" as a device that can be used; a UsageError otherwise.
torch::Device usable_device(const std::string& name);

}  // namespace deq
