#pragma once

#include <torch/types.h>

namespace deq::lab {

/// The most memory in use at any time so far: a GPU's, in tensors, or that of the whole process.
double peak_memory_mib(torch::Device device);

/// Restarts the peak from what is in use now. False where the system does not allow that: the peak
/// is then still the one since the beginning.
bool reset_peak_memory(torch::Device device);

}  // namespace deq::lab
