#include "train/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

namespace deq {

double peak_memory_mib(torch::Device device) {
  if (device.is_cuda()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<double>(stats.allocated_bytes[kAll].peak) / (1 << 20);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace deq
