#pragma once

#include <torch/types.h>

namespace deq {

enum class Precision {
  Float32,
  TensorFloat32,  ///< float32, whose matrix products and convolutions a GPU may round to TF32
  BFloat16,       ///< matrix products and convolutions in bfloat16; state, residuals, norms, loss
                  ///< and optimiser in float32
  Float64         ///< for checks
};

/// What parameters, data and states are kept in.
torch::ScalarType storage_type(Precision precision);

/// Computes in a precision until the end of the scope, on this thread.
class PrecisionScope {
 public:
  PrecisionScope(Precision precision, torch::Device device);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  torch::DeviceType device_;
  bool autocast_before_;
  torch::ScalarType autocast_type_before_;
  bool cublas_tf32_before_, cudnn_tf32_before_;
};

}  // namespace deq
