#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>

// Products of matrices inside a parallel region: there every thread multiplies for itself, blocks
// that fit into its cache.

namespace deq::kernels {

/// No gradients on this thread: workers do not inherit that from the one they work for.
using WithoutGradients = at::AutoDispatchBelowADInplaceOrView;

/// c = a·b, or c += a·b. c may be part of a larger matrix.
inline void multiply(at::Tensor c, const at::Tensor& a, const at::Tensor& b, bool add = false) {
  if (add) {
    c.addmm_(a, b);
  } else {
    at::mm_out(c, a, b);
  }
}

}  // namespace deq::kernels
