#pragma once

#include <torch/types.h>

#include <string>
#include <string_view>

namespace deq::io {

/// Throws Error, without a path, for a tensor that no file holds.
void require_storable(const std::string& name, const torch::Tensor& tensor);

/// The same values on the CPU, lying one after the other as a file holds them.
torch::Tensor as_stored(const torch::Tensor& tensor);

/// The bytes of a tensor that is as_stored.
std::string_view bytes_of(const torch::Tensor& stored);

}  // namespace deq::io
