#include "deq/core/precision.h"

#include <ATen/autocast_mode.h>

namespace deq {

torch::ScalarType storage_type(Precision precision) {
  return precision == Precision::Float64 ? torch::kFloat64 : torch::kFloat32;
}

TensorFloat32Scope::TensorFloat32Scope(Precision precision, torch::Device device)
    : cublas_before_(at::globalContext().allowTF32CuBLAS()),
      cudnn_before_(at::globalContext().allowTF32CuDNN()) {
  if (!device.is_cuda()) return;
  const bool rounded = precision == Precision::TensorFloat32;
  at::globalContext().setAllowTF32CuBLAS(rounded);
  at::globalContext().setAllowTF32CuDNN(rounded);
}

TensorFloat32Scope::~TensorFloat32Scope() {
  at::globalContext().setAllowTF32CuBLAS(cublas_before_);
  at::globalContext().setAllowTF32CuDNN(cudnn_before_);
}

PrecisionScope::PrecisionScope(Precision precision, torch::Device device)
    : products_(precision, device),
      device_(device.type()),
      autocast_before_(at::autocast::is_autocast_enabled(device_)),
      autocast_type_before_(at::autocast::get_autocast_dtype(device_)) {
  if (precision == Precision::BFloat16) {
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, torch::kBFloat16);
    at::autocast::increment_nesting();
  } else {
    at::autocast::set_autocast_enabled(device_, false);
  }
}

PrecisionScope::~PrecisionScope() {
  // The casts of the parameters are kept for a scope: the next one may see other weights.
  if (at::autocast::is_autocast_enabled(device_) && at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(device_, autocast_before_);
  at::autocast::set_autocast_dtype(device_, autocast_type_before_);
}

}  // namespace deq
