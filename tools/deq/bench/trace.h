#pragma once

#include <torch/types.h>

#include <functional>
#include <string>

namespace deq::lab::cli {

/// Writes what the host and the device did during `work` as a trace that browsers and Perfetto
/// show.
void write_trace(const std::string& path, const torch::Device& device,
                 const std::function<void()>& work);

}  // namespace deq::lab::cli
