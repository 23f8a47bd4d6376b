#include "kernels/dense_images_cuda.h"
#include "kernels/images_vectors_cuda.h"

// Bytes a number: 6 to bfloat16, 8 to float32; nothing is computed.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// Numbers of a thread: 16 bytes of the target.
template <class Y>
constexpr int kWidth = 16 / sizeof(Y);

template <class Y>
__global__ void dense_images_kernel(const float* __restrict__ source, int64_t stride,
                                    Y* __restrict__ target, int64_t numbers) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth<Y>;
  if (at >= numbers) return;
  const int64_t sample = blockIdx.y;
  float values[kWidth<Y>];
  load(source + sample * stride + at, values);
  store(target + sample * numbers + at, values);
}

template <class Y>
void launch(const ImagePointer& source, int64_t batch, int64_t numbers, void* target,
            cudaStream_t stream) {
  const int64_t per_block = kThreads * kWidth<Y>;
  const dim3 grid(static_cast<unsigned>((numbers + per_block - 1) / per_block),
                  static_cast<unsigned>(batch));
  dense_images_kernel<<<grid, kThreads, 0, stream>>>(as<float>(source.data), source.stride,
                                                     as<Y>(target), numbers);
}

}  // namespace

void dense_images(const ImagePointer& source, int64_t batch, int64_t numbers, Number type,
                  void* target, cudaStream_t stream) {
  if (batch * numbers == 0) return;
  const auto run = type == Number::Float32 ? launch<float> : launch<__nv_bfloat16>;
  run(source, batch, numbers, target, stream);
}

}  // namespace deq::kernels::cuda
