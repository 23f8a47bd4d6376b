#pragma once

#include <string>

namespace deq {

/// Whether CUDA can be used, and if not, why: one sentence.
struct CudaStatus {
  bool available = false;
  std::string reason;
};

/// The CUDA part of the library is libdeq_cuda.so, which lies beside libdeq.so and is loaded with
/// it where there is an NVIDIA driver. Without it, or without a GPU, everything runs on the CPU.
const CudaStatus& cuda_status();

}  // namespace deq
