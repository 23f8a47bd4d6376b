#pragma once

#include <cuda_bf16.h>

#include "kernels/images/images_cuda.h"

// What the kernels on images share: vectors of V numbers, computed with in the type F.

namespace deq::kernels::cuda {

/// The type to compute in.
template <class T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

template <class T, int V>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Vector {
  T data[V];
};

template <int V, class T>
__device__ Vector<T, V> vector_at(const T* source) {
  if constexpr (sizeof(T) == 2 && V == 4) {  // or the compiler reads four halves of registers
    const auto words = *reinterpret_cast<const uint2*>(source);
    return *reinterpret_cast<const Vector<T, V>*>(&words);
  }
  return *reinterpret_cast<const Vector<T, V>*>(source);
}

template <class T, class F, int V>
__device__ void unpack(const Vector<T, V>& vector, F (&values)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) values[k] = static_cast<F>(vector.data[k]);
}

template <class T, class F, int V>
__device__ void load(const T* source, F (&values)[V]) {
  unpack(vector_at<V>(source), values);
}

template <class T, class F, int V>
__device__ void store(T* target, const F (&values)[V]) {
  Vector<T, V> vector;
#pragma unroll
  for (int k = 0; k < V; ++k) vector.data[k] = static_cast<T>(values[k]);
  *reinterpret_cast<Vector<T, V>*>(target) = vector;
}

/// values, but zero where the mask, if there is one, is not positive.
template <class T, class F, int V>
__device__ void keep_positive(const T* mask, F (&values)[V]) {
  if (mask == nullptr) return;
  F image[V];
  load(mask, image);
#pragma unroll
  for (int k = 0; k < V; ++k) values[k] = image[k] > F(0) ? values[k] : F(0);
}

template <class T>
const T* as(const void* pointer) {
  return static_cast<const T*>(pointer);
}
template <class T>
T* as(void* pointer) {
  return static_cast<T*>(pointer);
}

/// Calls launch.operator()<T, Y, V>() for the width that `channels` allows.
template <class T, class Y, class Launch>
void with_width(int64_t channels, const Launch& launch) {
  switch (vector_width(channels, sizeof(T))) {
    case 8:
      if constexpr (sizeof(T) == 2) launch.template operator()<T, Y, 8>();
      break;
    case 4:
      if constexpr (sizeof(T) <= 4) launch.template operator()<T, Y, 4>();
      break;
    case 2:
      if constexpr (sizeof(T) == 8) launch.template operator()<T, Y, 2>();
      break;
    default:
      launch.template operator()<T, Y, 1>();
  }
}

}  // namespace deq::kernels::cuda
