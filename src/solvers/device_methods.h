#pragma once

#include <memory>

#include "solvers/device_iteration.h"

namespace deq {

/// The counterpart of Method: it enqueues what leads from one judged iterate to the next.
class DeviceMethod {
 public:
  virtual ~DeviceMethod() = default;
  virtual Move propose(DeviceIteration& it) = 0;
  /// Adds the counts of restarts and rejections; waits for the device.
  virtual void count(DeviceIteration& it, Report& report) const = 0;
  /// As Method's; waits for the device.
  virtual std::shared_ptr<const SecantInverse> inverse(DeviceIteration& /*it*/) const {
    return nullptr;
  }
};

/// Null where the method has no such counterpart, or its history is too long for it.
std::unique_ptr<DeviceMethod> make_device_method(const SolverOptions& options);

}  // namespace deq
