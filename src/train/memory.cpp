#include "train/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <optional>
#include <string>

namespace deq {
namespace {

/// The kernel's high-water mark, which unlike getrusage's can be reset and leaves out what the
/// process was before it started this program.
std::optional<double> high_water_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return std::nullopt;
}

}  // namespace

double peak_memory_mib(torch::Device device) {
  if (device.is_cuda()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<double>(stats.allocated_bytes[kAll].peak) / (1 << 20);
  }
  if (const auto peak = high_water_mib()) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

bool reset_peak_memory(torch::Device device) {
  if (device.is_cuda()) {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
    return true;
  }
  // What was freed but is kept for later is not in use.
  ::malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // proc(5): the high-water mark becomes what is resident now
  return reset.good() && high_water_mib().has_value();
}

}  // namespace deq
