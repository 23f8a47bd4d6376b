#include "kernels/images/images_vectors_cuda.h"
#include "kernels/images/upsample_cuda.h"

// A thread owns V channels of one small pixel, and so of four large ones. Bytes per number of the
// large images, in bfloat16: forward 4.5, backward 2.5 (6.5 with a mask): bound by memory
// bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// Where a thread's numbers lie, from the start of a sample.
struct Corner {
  int64_t sample, small, large[4];
};

/// False for the threads that are left over.
template <int V>
__device__ bool corner_of(const UpsampleShape& shape, Corner& corner) {
  const int64_t columns = shape.channels / V, pixels = shape.height * shape.width;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  corner.sample = index / (pixels * columns);
  if (corner.sample >= shape.batch) return false;
  const int64_t channel = index % columns * V, pixel = index / columns % pixels;
  const int64_t row = 2 * (pixel / shape.width), column = 2 * (pixel % shape.width);
  corner.small = pixel * shape.channels + channel;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t at = (row + i / 2) * 2 * shape.width + column + i % 2;
    corner.large[i] = at * shape.channels + channel;
  }
  return true;
}

template <class T>
__device__ const T* of_sample(const T* images, int64_t stride, const Corner& corner) {
  return images == nullptr ? nullptr : images + corner.sample * stride;
}

template <class T>
__device__ const T* at(const T* image, int64_t offset) {
  return image == nullptr ? nullptr : image + offset;
}

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void upsample_add_kernel(const T* __restrict__ smalls, int64_t small_stride,
                                    const T* __restrict__ xs, int64_t x_stride,
                                    const T* __restrict__ masks, int64_t mask_stride, bool relu,
                                    T* __restrict__ ys, UpsampleShape shape) {
  Corner corner;
  if (!corner_of<V>(shape, corner)) return;
  const T* const x = of_sample(xs, x_stride, corner);
  const T* const mask = of_sample(masks, mask_stride, corner);
  T* const y = ys + corner.sample * 4 * shape.height * shape.width * shape.channels;
  F small[V], values[4][V] = {};
  load(of_sample(smalls, small_stride, corner) + corner.small, small);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (x != nullptr) load(x + corner.large[i], values[i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F sum = values[i][k] + small[k];
      values[i][k] = relu && sum < F(0) ? F(0) : sum;  // NaN stays
    }
    keep_positive(at(mask, corner.large[i]), values[i]);
    store(y + corner.large[i], values[i]);
  }
}

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void upsample_add_backward_kernel(const T* __restrict__ gs, int64_t g_stride,
                                             const T* __restrict__ masks, int64_t mask_stride,
                                             T* __restrict__ for_smalls, T* __restrict__ for_xs,
                                             UpsampleShape shape) {
  Corner corner;
  if (!corner_of<V>(shape, corner)) return;
  const T* const g = of_sample(gs, g_stride, corner);
  const T* const mask = of_sample(masks, mask_stride, corner);
  const int64_t dense = shape.height * shape.width * shape.channels;
  F sums[V] = {}, values[4][V];
#pragma unroll
  for (int i = 0; i < 4; ++i) load(g + corner.large[i], values[i]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    keep_positive(at(mask, corner.large[i]), values[i]);
    if (for_xs != nullptr) store(for_xs + corner.sample * 4 * dense + corner.large[i], values[i]);
#pragma unroll
    for (int k = 0; k < V; ++k) sums[k] += values[i][k];
  }
  store(for_smalls + corner.sample * dense + corner.small, sums);
}

template <class Launch>
void with_type(Number type, const UpsampleShape& shape, const Launch& launch) {
  if (shape.batch * shape.channels * shape.height * shape.width == 0) return;
  if (type == Number::Float64) return with_width<double, double>(shape.channels, launch);
  if (type == Number::Float32) return with_width<float, float>(shape.channels, launch);
  with_width<__nv_bfloat16, __nv_bfloat16>(shape.channels, launch);
}

unsigned blocks_of(const UpsampleShape& shape, int width) {
  const int64_t threads = shape.batch * shape.height * shape.width * (shape.channels / width);
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void upsample_add(Number type, const UpsampleShape& shape, ImagePointer small, ImagePointer x,
                  ImagePointer mask, bool relu, void* y, cudaStream_t stream) {
  with_type(type, shape, [&]<class T, class, int V>() {
    upsample_add_kernel<T, V><<<blocks_of(shape, V), kThreads, 0, stream>>>(
        as<T>(small.data), small.stride, as<T>(x.data), x.stride, as<T>(mask.data), mask.stride,
        relu, as<T>(y), shape);
  });
}

void upsample_add_backward(Number type, const UpsampleShape& shape, ImagePointer g,
                           ImagePointer mask, void* for_small, void* for_x, cudaStream_t stream) {
  with_type(type, shape, [&]<class T, class, int V>() {
    upsample_add_backward_kernel<T, V><<<blocks_of(shape, V), kThreads, 0, stream>>>(
        as<T>(g.data), g.stride, as<T>(mask.data), mask.stride, as<T>(for_small), as<T>(for_x),
        shape);
  });
}

}  // namespace deq::kernels::cuda
