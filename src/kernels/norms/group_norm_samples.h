#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/norms/group_norm_rows.h"

namespace deq::kernels::cpu {

/// Group norm of one sample at a time, in a thread's cache: images in channels-last order, dense.
/// Defined for float and double.
template <class T>
class GroupNormSamples {
 public:
  /// An undefined weight is none.
  GroupNormSamples(int64_t channels, int64_t pixels, int64_t groups, const at::Tensor& weight);

  /// y = x̂ ⊙ weight + bias (+ addend), then ReLU where asked for, and the groups' mean and
  /// reciprocal standard deviation. y may be x.
  void forward(const T* x, const T* addend, const T* bias, double eps, bool relu, T* y, T* mean,
               T* rstd);
  /// ∂x for g = ∂y. Where there was a ReLU, y is what came of it and `pulled` takes what of g
  /// passes it; pulled may be g, and for_x may be pulled. `totals` are two rows of sums over the
  /// pixels of every channel: of what passes, and of that times x − mean.
  void backward(const T* g, const T* x, const T* y, const T* mean, const T* rstd, T* pulled,
                T* for_x, double* totals);

 private:
  Rows rows_;
  int64_t groups_, per_group_;
  const T* weight_;
  std::vector<T> work_, of_channels_;
  std::vector<double> totals_;
};

}  // namespace deq::kernels::cpu
