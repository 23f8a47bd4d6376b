#include "deq/core/precision.h"

#include <ATen/autocast_mode.h>

#include "core/float32_rounding.h"

namespace deq {

torch::ScalarType storage_type(Precision precision) {
  return precision == Precision::Float64 ? torch::kFloat64 : torch::kFloat32;
}

namespace {

void set_tf32(bool products, bool convolutions) {
  // Where nothing changes, settings that torch's older functions cannot express stay as they are.
  const auto now = tf32_allowed();
  if (now.products != products) at::globalContext().setAllowTF32CuBLAS(products);
  if (now.convolutions != convolutions) at::globalContext().setAllowTF32CuDNN(convolutions);
}

}  // namespace

TensorFloat32Scope::TensorFloat32Scope(Precision precision, torch::Device device)
    : cublas_before_(tf32_allowed().products), cudnn_before_(tf32_allowed().convolutions) {
  if (!device.is_cuda()) return;
  const bool rounded = precision == Precision::TensorFloat32;
  set_tf32(rounded, rounded);
}

TensorFloat32Scope::~TensorFloat32Scope() {
  set_tf32(cublas_before_, cudnn_before_);
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
