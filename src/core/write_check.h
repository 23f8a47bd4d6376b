#pragma once

#include <ATen/core/Tensor.h>

#include "core/require.h"

namespace deq {

/// Notices that someone has written into a tensor; not in inference mode, which does not count
/// writes.
class WriteCheck {
 public:
  WriteCheck() = default;
  explicit WriteCheck(const at::Tensor& tensor) : tensor_(tensor), version_(now()) {}

  bool written() const { return tensor_.defined() && now() != version_; }

 private:
  uint32_t now() const { return tensor_.is_inference() ? 0 : tensor_._version(); }

  at::Tensor tensor_{};
  uint32_t version_ = 0;
};

/// f(z), which must leave z as it is.
template <class Function>
at::Tensor image_of(const Function& f, const at::Tensor& z) {
  const WriteCheck state(z);
  auto image = f(z);
  require(!state.written(), "f has written into its state z: let it compute on z.clone()");
  return image;
}

}  // namespace deq
