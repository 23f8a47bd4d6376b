#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

namespace deq {

/// The type in which a product with this tensor is computed.
inline at::ScalarType compute_type(const at::Tensor& tensor) {
  const auto device = tensor.device().type();
  const bool casts =
      tensor.scalar_type() == at::kFloat && at::autocast::is_autocast_enabled(device);
  return casts ? at::autocast::get_autocast_dtype(device) : tensor.scalar_type();
}

/// No autocast on a kind of device, on this thread, until the end of the scope.
class NoAutocast {
 public:
  explicit NoAutocast(const c10::Device& device)
      : device_(device.type()), before_(at::autocast::is_autocast_enabled(device_)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~NoAutocast() { at::autocast::set_autocast_enabled(device_, before_); }
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;

 private:
  c10::DeviceType device_;
  bool before_;
};

}  // namespace deq
