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

/// How autocast stands on this thread for a kind of device.
class AutocastSetting {
 public:
  explicit AutocastSetting(const c10::Device& device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device.type())),
        type_(at::autocast::get_autocast_dtype(device.type())) {}

  const c10::Device& device() const { return device_; }
  bool stands() const {
    const AutocastSetting now(device_);
    return now.enabled_ == enabled_ && (!enabled_ || now.type_ == type_);
  }
  void apply() const {
    at::autocast::set_autocast_enabled(device_.type(), enabled_);
    at::autocast::set_autocast_dtype(device_.type(), type_);
  }

 private:
  c10::Device device_;
  bool enabled_;
  at::ScalarType type_;
};

/// Autocast as it stood elsewhere, on this thread, until the end of the scope: backward() runs
/// where the user has left it. Casts are not remembered: one that was made without a graph would be
/// found where a graph is wanted.
class AutocastAs {
 public:
  explicit AutocastAs(const AutocastSetting& setting)
      : before_(setting.device()), remembers_(at::autocast::is_autocast_cache_enabled()) {
    setting.apply();
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastAs() {
    before_.apply();
    at::autocast::set_autocast_cache_enabled(remembers_);
  }
  AutocastAs(const AutocastAs&) = delete;
  AutocastAs& operator=(const AutocastAs&) = delete;

 private:
  AutocastSetting before_;
  bool remembers_;
};

}  // namespace deq
