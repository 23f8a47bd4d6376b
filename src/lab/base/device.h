#pragma once

#include <torch/types.h>

#include <string>

namespace deq::lab {

/// "cpu", "cuda" or "cuda:N" as a device that can be used; a UsageError otherwise.
torch::Device usable_device(const std::string& name);

}  // namespace deq::lab
