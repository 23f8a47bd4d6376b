#include "kernels/images/dense_images_cuda.h"
#include "kernels/images/images_vectors_cuda.h"

// Bytes per number: 6 to bfloat16, 8 to float32; nothing is computed.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// Numbers of a thread: 16 bytes of the smaller type.
template <class X, class Y>
constexpr int kWidth = 16 / (sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y));

template <class X, class Y>
__global__ void convert_kernel(const X* __restrict__ source, int64_t source_stride,
                               Y* __restrict__ target, int64_t target_stride, int64_t numbers) {
  constexpr int kOwn = kWidth<X, Y>;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kOwn;
  if (at >= numbers) return;
  const int64_t sample = blockIdx.y;
  float values[kOwn];
  load(source + sample * source_stride + at, values);
  store(target + sample * target_stride + at, values);
}

template <class X, class Y>
void convert(const void* source, int64_t source_stride, void* target, int64_t target_stride,
             int64_t batch, int64_t numbers, cudaStream_t stream) {
  if (batch * numbers == 0) return;
  const int64_t per_block = kThreads * kWidth<X, Y>;
  const dim3 grid(static_cast<unsigned>((numbers + per_block - 1) / per_block),
                  static_cast<unsigned>(batch));
  convert_kernel<<<grid, kThreads, 0, stream>>>(as<X>(source), source_stride, as<Y>(target),
                                                target_stride, numbers);
}

}  // namespace

void dense_images(const ImagePointer& source, int64_t batch, int64_t numbers, Number type,
                  void* target, cudaStream_t stream) {
  const auto run = type == Number::Float32 ? convert<float, float> : convert<float, __nv_bfloat16>;
  run(source.data, source.stride, target, numbers, batch, numbers, stream);
}

void spread_images(const void* source, Number type, int64_t batch, int64_t numbers, float* target,
                   int64_t stride, cudaStream_t stream) {
  const auto run = type == Number::Float32 ? convert<float, float> : convert<__nv_bfloat16, float>;
  run(source, numbers, target, stride, batch, numbers, stream);
}

}  // namespace deq::kernels::cuda
