#pragma once

#include <ATen/core/Tensor.h>

namespace deq::kernels {

/// A new tensor on the CPU. Its memory is that of one of the same size that is no longer in use, if
/// there is one: memory that malloc gives back to the system between the steps of a solve is paid
/// for again in page faults, which cost more than many a kernel. No more is kept than was in use at
/// once.
at::Tensor empty_reused(at::IntArrayRef sizes, at::IntArrayRef strides,
                        const at::TensorOptions& options);
/// With the strides of a dense tensor.
at::Tensor empty_reused(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace deq::kernels
