#include "kernels/feed_forward/sample_masks_cuda.h"
#include "kernels/images/images_vectors_cuda.h"

// A thread owns 16 bytes of columns of kRows rows of one sample and reads its mask once. In
// bfloat16 it moves 4 bytes per number, or 6 with `positive`; in float32 twice as many. Bound by
// memory bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 128, kRows = 5;

template <class T>
__global__ void mask_samples_kernel(MaskedRows shape, T* __restrict__ rows,
                                    const T* __restrict__ masks, const T* __restrict__ positive) {
  constexpr int kWidth = 16 / sizeof(T);
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (column >= shape.numbers) return;
  const int64_t sample = blockIdx.z, first = static_cast<int64_t>(blockIdx.y) * kRows;
  float mask[kWidth], values[kRows][kWidth];
  load(masks + sample * shape.numbers + column, mask);
  const auto offset = [&](int row) {
    return (sample * shape.rows + first + row) * shape.numbers + column;
  };
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row < shape.rows) load(rows + offset(row), values[row]);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) return;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values[row][k] *= mask[k];
    keep_positive(positive == nullptr ? nullptr : positive + offset(row), values[row]);
    store(rows + offset(row), values[row]);
  }
}

unsigned parts(int64_t whole, int64_t part) {
  return static_cast<unsigned>((whole + part - 1) / part);
}

template <class T>
void launch(const MaskedRows& shape, void* rows, const void* masks, const void* positive,
            cudaStream_t stream) {
  const dim3 grid(parts(shape.numbers, kThreads * 16 / sizeof(T)), parts(shape.rows, kRows),
                  static_cast<unsigned>(shape.samples));
  mask_samples_kernel<<<grid, kThreads, 0, stream>>>(shape, as<T>(rows), as<T>(masks),
                                                     as<T>(positive));
}

}  // namespace

void mask_samples(Number type, const MaskedRows& shape, void* rows, const void* masks,
                  const void* positive, cudaStream_t stream) {
  if (shape.samples * shape.rows * shape.numbers == 0) return;
  const auto run = type == Number::Float32 ? launch<float> : launch<__nv_bfloat16>;
  run(shape, rows, masks, positive, stream);
}

}  // namespace deq::kernels::cuda
