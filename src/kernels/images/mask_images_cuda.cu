#include "kernels/images/images_vectors_cuda.h"
#include "kernels/images/mask_images_cuda.h"

// A thread owns 16 bytes of one sample. Bytes per number in bfloat16: 4, or 6 with an addend; bound
// by memory bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void mask_images_kernel(MaskedImages shape, const T* __restrict__ xs, int64_t x_stride,
                                   const T* __restrict__ masks, const T* __restrict__ addends,
                                   int64_t addend_stride, T* __restrict__ ys) {
  constexpr int kWidth = 16 / sizeof(T);
  const int64_t numbers = shape.pixels * shape.channels, sample = blockIdx.y;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (at >= numbers) return;
  float values[kWidth], mask[kWidth], added[kWidth] = {};
  load(xs + sample * x_stride + at, values);
  if (addends != nullptr) load(addends + sample * addend_stride + at, added);
  load(masks + sample * shape.channels + at % shape.channels, mask);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) values[k] = values[k] * mask[k] + added[k];
  store(ys + sample * numbers + at, values);
}

template <class T>
void launch(const MaskedImages& shape, ImagePointer x, const void* mask, ImagePointer addend,
            void* y, cudaStream_t stream) {
  const int64_t per_block = kThreads * 16 / sizeof(T);
  const dim3 grid(
      static_cast<unsigned>((shape.pixels * shape.channels + per_block - 1) / per_block),
      static_cast<unsigned>(shape.batch));
  mask_images_kernel<<<grid, kThreads, 0, stream>>>(shape, as<T>(x.data), x.stride, as<T>(mask),
                                                    as<T>(addend.data), addend.stride, as<T>(y));
}

}  // namespace

void mask_images(Number type, const MaskedImages& shape, ImagePointer x, const void* mask,
                 ImagePointer addend, void* y, cudaStream_t stream) {
  if (shape.batch * shape.pixels * shape.channels == 0) return;
  const auto run = type == Number::Float32 ? launch<float> : launch<__nv_bfloat16>;
  run(shape, x, mask, addend, y, stream);
}

}  // namespace deq::kernels::cuda
