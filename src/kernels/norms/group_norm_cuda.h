#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/images/images_cuda.h"

// The CUDA side of group_norm.h: raw device pointers and a stream; see images_cuda.h for how images
// lie. What is written is dense, except y. Statistics, weights and sums are float32, or float64 for
// float64 images. Null pointers are absent tensors.

namespace deq::kernels::cuda {

/// `out` is that of y and ∂y: that of the images, or Float32 for BFloat16 images.
struct GroupNormTypes {
  Number in, out;
};

struct GroupNormShape {
  int64_t batch, channels, groups, pixels;
};

struct GroupNormForward {
  ImagePointer x, addend;
  const void *weight, *bias;
  ImageTarget y;
  void *mean, *rstd;
  double eps;
  bool relu;
};

struct GroupNormBackward {
  ImagePointer g, x, y;  // y where there was a ReLU
  const void *mean, *rstd, *weight;
  void *for_x, *for_addend;
  void* sums;  // [2, batch, channels]: Σ g and Σ g x̂ over the pixels
};

struct GroupNormDoubleBackward {
  ImagePointer v, v_addend, g, x, y;
  const void *mean, *rstd, *weight;
  void *for_g, *for_x;
  void* sums;  // [batch, channels]: what for_weight is the sum of
};

void group_norm(const GroupNormTypes& types, const GroupNormShape& shape, const GroupNormForward& a,
                cudaStream_t stream);
void group_norm_backward(const GroupNormTypes& types, const GroupNormShape& shape,
                         const GroupNormBackward& a, cudaStream_t stream);
void group_norm_double_backward(const GroupNormTypes& types, const GroupNormShape& shape,
                                const GroupNormDoubleBackward& a, cudaStream_t stream);

}  // namespace deq::kernels::cuda
