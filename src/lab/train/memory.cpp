#include "lab/train/memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <optional>
#include <string>

#include "core/cuda_memory.h"

namespace deq::lab {
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
    return static_cast<double>(peak_cuda_bytes(device)) / (1 << 20);
  }
  if (const auto peak = high_water_mib()) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

bool reset_peak_memory(torch::Device device) {
  if (device.is_cuda()) {
    reset_peak_cuda_bytes(device);
    return true;
  }
  // What was freed but is kept for later is not in use.
  ::malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // proc(5): the high-water mark becomes what is resident now
  return reset.good() && high_water_mib().has_value();
}

}  // namespace deq::lab
