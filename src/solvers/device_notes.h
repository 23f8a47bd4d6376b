#pragma once

#include <torch/types.h>

#include <vector>

#include "core/require.h"

namespace deq {

/// Small arrays that a device writes during a solve and the host reads at its end, together: every
/// read of its own would make the host wait once more.
class DeviceNotes {
 public:
  DeviceNotes(int64_t bytes, const torch::Device& device)
      : memory_(torch::zeros({bytes}, torch::TensorOptions(device).dtype(torch::kByte))) {}

  /// Bytes that an array of these takes.
  template <class Number>
  static int64_t bytes_of(int64_t count) {
    constexpr int64_t kAlignment = 8;
    const auto bytes = count * static_cast<int64_t>(sizeof(Number));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// An array of zeros, as bytes.
  template <class Number>
  torch::Tensor take(int64_t count) {
    const auto bytes = bytes_of<Number>(count);
    require(taken_ + bytes <= memory_.numel(), "the notes of a solve are full");
    taken_ += bytes;
    return memory_.narrow(0, taken_ - bytes, count * static_cast<int64_t>(sizeof(Number)));
  }

  /// What an array holds now, at the end of the solve: the first call waits for the device.
  template <class Number>
  std::vector<Number> on_host(const torch::Tensor& array) {
    if (!read_.defined()) read_ = memory_.cpu();
    const auto offset =
        static_cast<const uint8_t*>(array.const_data_ptr()) - memory_.const_data_ptr<uint8_t>();
    const auto* first = reinterpret_cast<const Number*>(read_.const_data_ptr<uint8_t>() + offset);
    return {first, first + array.nbytes() / sizeof(Number)};
  }

 private:
  torch::Tensor memory_, read_;
  int64_t taken_ = 0;
};

}  // namespace deq
