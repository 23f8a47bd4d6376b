#include "kernels/images_vectors_cuda.h"
#include "kernels/sample_masks_cuda.h"

// A thread owns eight columns of kRows rows of one sample and reads its mask once. Bytes a number:
// 4, or 6 with `positive`: bound by memory bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 128, kRows = 5, kWidth = 8;
using Entry = __nv_bfloat16;

__global__ void mask_samples_kernel(MaskedRows shape, Entry* __restrict__ rows,
                                    const Entry* __restrict__ masks,
                                    const Entry* __restrict__ positive) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth;
  if (column >= shape.numbers) return;
  const int64_t sample = blockIdx.z, first = static_cast<int64_t>(blockIdx.y) * kRows;
  float mask[kWidth], values[kRows][kWidth];
  load(masks + sample * shape.numbers + column, mask);
  const auto place = [&](int row) {
    return (sample * shape.rows + first + row) * shape.numbers + column;
  };
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row < shape.rows) load(rows + place(row), values[row]);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) return;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values[row][k] *= mask[k];
    keep_positive(positive == nullptr ? nullptr : positive + place(row), values[row]);
    store(rows + place(row), values[row]);
  }
}

unsigned parts(int64_t whole, int64_t part) {
  return static_cast<unsigned>((whole + part - 1) / part);
}

}  // namespace

void mask_samples(const MaskedRows& shape, void* rows, const void* masks, const void* positive,
                  cudaStream_t stream) {
  if (shape.samples * shape.rows * shape.numbers == 0) return;
  const dim3 grid(parts(shape.numbers, kThreads * kWidth), parts(shape.rows, kRows),
                  static_cast<unsigned>(shape.samples));
  mask_samples_kernel<<<grid, kThreads, 0, stream>>>(shape, as<Entry>(rows), as<Entry>(masks),
                                                     as<Entry>(positive));
}

}  // namespace deq::kernels::cuda
