#pragma once

#include <ATen/Context.h>

#include <mutex>

namespace deq::lab {

/// What models draw from torch's own generator on a device, such as dropout, now follows from
/// `key`.
inline void seed_model_noise(const at::Device& device, uint64_t key) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(key);
}

}  // namespace deq::lab
