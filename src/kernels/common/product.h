#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

// Products of matrices. Inside a parallel region every thread multiplies for itself, blocks that
// fit into its cache.

namespace deq::kernels {

/// No gradients on this thread: workers do not inherit that from the one they work for.
using WithoutGradients = at::AutoDispatchBelowADInplaceOrView;

/// c = a·b, or c += a·b. c may be part of a larger matrix.
void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add = false);
/// The same by all threads.
void multiply_in_parallel(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                          bool add = false);

/// a[s]·b[s] for every sample s of [samples, m, k] and [samples, k, n]: [samples, m, n].
at::Tensor products(const at::Tensor& a, const at::Tensor& b);
/// Σ_s a[s]·b[s]: [m, n].
at::Tensor summed_products(const at::Tensor& a, const at::Tensor& b);

namespace cpu {

/// Whether torch's library leaves half of this machine unused: MKL takes the widest instructions
/// on Intel's processors only.
bool own_products_pay();

/// Of float32 matrices on the CPU, the numbers of whose rows or of whose columns lie side by side,
/// with rows enough to be worth laying out the second one in panels.
bool own_product_serves(const at::Tensor& a, const at::Tensor& b);
/// The numbers of a row of c lie side by side. A row of it depends on that row of a and on b alone,
/// to the bit.
void own_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add);

}  // namespace cpu

}  // namespace deq::kernels
