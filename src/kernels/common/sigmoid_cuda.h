#pragma once

#include <cuda_bf16.h>

// σ and tanh, as exact as the type of what is kept of their results.

namespace deq::kernels::cuda {

inline __device__ float sigmoid_of(float a, __nv_bfloat16) {
  return __fdividef(1.0F, 1.0F + __expf(-a));
}
inline __device__ float sigmoid_of(float a, float) {
  return 1.0F / (1.0F + expf(-a));
}
inline __device__ double sigmoid_of(double a, double) {
  return 1.0 / (1.0 + exp(-a));
}

inline __device__ float tanh_of(float a, __nv_bfloat16 kept) {
  return 2.0F * sigmoid_of(2.0F * a, kept) - 1.0F;
}
inline __device__ float tanh_of(float a, float) {
  return tanhf(a);
}
inline __device__ double tanh_of(double a, double) {
  return tanh(a);
}

}  // namespace deq::kernels::cuda
