#pragma once

#include <torch/types.h>

#include <cstdint>

namespace deq {

/// The most that torch has had in use on a GPU since the start or the last reset.
int64_t peak_cuda_bytes(const torch::Device& device);
void reset_peak_cuda_bytes(const torch::Device& device);

/// The CUDA plugin's, by the name deq_cuda_peak: the peak, after which it may be reset.
using CudaPeak = int64_t(c10::DeviceIndex device, bool reset);

}  // namespace deq
