#pragma once

#include <string>

namespace deq::lab {

// What the machine says about itself; empty where it does not say.

std::string cpu_model();

/// The distribution and the kernel.
std::string operating_system();

/// Of the libraries that torch loaded; only where CUDA can be used.
std::string cuda_runtime_version();

/// The GPUs from index `first` on, equal ones counted: "2 × NVIDIA H200". Only where CUDA can be
/// used.
std::string gpu_names(int first, int count);

}  // namespace deq::lab
