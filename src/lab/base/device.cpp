#include "lab/base/device.h"

#include <torch/cuda.h>

#include "core/require.h"
#include "deq/core/cuda.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {

torch::Device usable_device(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  const bool indexed = name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
                       name.find_first_not_of("0123456789", 5) == std::string::npos &&
                       name.size() < 8;
  require<UsageError>(name == "cuda" || indexed,
                      "unknown device \"{}\"; allowed: cpu, cuda, cuda:N", name);
  const auto& status = cuda_status();
  require<UsageError>(status.available, "device \"{}\": {}", name, status.reason);
  const int index = indexed ? std::stoi(name.substr(5)) : 0;
  const auto count = static_cast<int>(torch::cuda::device_count());
  require<UsageError>(index < count, "device \"{}\": there are {} GPUs, counted from 0", name,
                      count);
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace deq::lab
