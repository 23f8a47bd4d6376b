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

/// Whether a GPU may round the factors of products, until the end of the scope; for all threads,
/// those of backward among them.
class TensorFloat32Scope {
 public:
  TensorFloat32Scope(Precision precision, torch::Device device);
  ~TensorFloat32Scope();
  TensorFloat32Scope(const TensorFloat32Scope&) = delete;
  TensorFloat32Scope& operator=(const TensorFloat32Scope&) = delete;

 private:
  bool cublas_before_, cudnn_before_;
};

/// Computes in a precision until the end of the scope, on this thread. Backward belongs outside: it
/// computes in the types of forward.
class PrecisionScope {
 public:
  PrecisionScope(Precision precision, torch::Device device);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  TensorFloat32Scope products_;
  torch::DeviceType device_;
  bool autocast_before_;
  torch::ScalarType autocast_type_before_;
};

}  // namespace deq
