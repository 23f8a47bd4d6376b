#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace deq::kernels::cuda {

/// A dense tensor that begins where vectors of 16 bytes do: itself, or a copy.
inline at::Tensor with_aligned_vectors(const at::Tensor& tensor) {
  constexpr std::uintptr_t kBytes = 16;
  auto dense = tensor.contiguous();
  const auto address = reinterpret_cast<std::uintptr_t>(dense.const_data_ptr());
  return address % kBytes == 0 ? dense : dense.clone();
}

}  // namespace deq::kernels::cuda
