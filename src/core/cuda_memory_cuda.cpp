#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <type_traits>

#include "core/cuda_memory.h"

namespace deq {

extern "C" __attribute__((visibility("default"))) int64_t deq_cuda_peak(c10::DeviceIndex device,
                                                                        bool reset) {
  namespace cuda = c10::cuda::CUDACachingAllocator;
  // A device without a number is the current one.
  const auto index = device < 0 ? c10::cuda::current_device() : device;
  const auto stats = cuda::getDeviceStats(index);
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  if (reset) cuda::resetPeakStats(index);
  return stats.allocated_bytes[kAll].peak;
}

static_assert(std::is_same_v<decltype(deq_cuda_peak), CudaPeak>);

}  // namespace deq
