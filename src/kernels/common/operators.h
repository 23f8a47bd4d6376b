#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

// What calls of our own torch operators share.

namespace deq::kernels {

using OptionalTensor = std::optional<at::Tensor>;

/// An undefined tensor is none.
inline OptionalTensor as_optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// An operator by its name, such as "deq::observe"; to be kept by whoever calls it.
template <class Function>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace deq::kernels
