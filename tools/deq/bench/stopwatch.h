#pragma once

#include <torch/types.h>

#include <functional>
#include <string>

namespace deq::lab::cli {

/// The device, and of the CPU the instructions that kernels use: "cpu, AVX512".
std::string instructions_of(const torch::Device& device);

/// Returns when the device has nothing left to do.
void wait_for(const torch::Device& device);

/// The median time of a call in milliseconds, after some to warm up, with nothing left on the
/// device before and after each.
double median_ms(const torch::Device& device, int64_t repeats, const std::function<void()>& work);

/// What the device reaches at best, measured here and now.
struct Ceilings {
  double flops = 0;  ///< per second, of large matrix products
  double bytes = 0;  ///< per second, of copies, read and written counted
};

/// `type` is what the products are computed in.
Ceilings measure_ceilings(const torch::Device& device, torch::ScalarType type);

}  // namespace deq::lab::cli
