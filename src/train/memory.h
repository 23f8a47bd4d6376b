#pragma once

#include <torch/types.h>

namespace deq {

/// The most memory in use at any time so far: a GPU's, in tensors, or that of the whole process.
double peak_memory_mib(torch::Device device);

}  // namespace deq
